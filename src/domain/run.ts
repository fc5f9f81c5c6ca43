/** `running → completed | interrupted | failed`. A run whose process died is interrupted, by whoever notices. */
export const Run = {
  running: 'running',
  completed: 'completed',
  interrupted: 'interrupted',
  failed: 'failed',
} as const
export type RunState = (typeof Run)[keyof typeof Run]

/** What started a run; with it goes its priority at the limiter. */
export type Trigger = 'manual' | 'schedule' | 'follow' | 'backfill'

/** Lower is sooner: what follows the database, then the night's run, then a backfill. */
export function priorityOf(trigger: Trigger): 'urgent' | 'normal' | 'low' {
  if (trigger === 'follow') return 'urgent'
  return trigger === 'backfill' ? 'low' : 'normal'
}
