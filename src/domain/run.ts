/** `running → completed | interrupted | failed`. A run whose process died is interrupted, by whoever notices. */
export const Run = {
  running: 'running',
  completed: 'completed',
  interrupted: 'interrupted',
  failed: 'failed',
} as const
export type RunState = (typeof Run)[keyof typeof Run]

/** What started a run; with it goes its priority at the limiter. */
export type Trigger = 'manual' | 'schedule' | 'sync' | 'backfill'

/** Lower is sooner: what follows the database, then the night's run, then a backfill. */
export function priorityOf(trigger: Trigger): 'sync' | 'nightly' | 'backfill' {
  if (trigger === 'sync') return 'sync'
  return trigger === 'backfill' ? 'backfill' : 'nightly'
}
