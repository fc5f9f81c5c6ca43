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
export function toPriority(trigger: Trigger): 'urgent' | 'normal' | 'low' {
  if (trigger === 'follow') return 'urgent'
  return trigger === 'backfill' ? 'low' : 'normal'
}

/** Another process has taken a run over, because this one could not say in time that it lives. Nothing is lost. */
export class LeaseLostError extends Error {
  override readonly name = 'TakenForDead'
  constructor(run: number, leaseMs: number) {
    super(
      `run ${run} was taken for dead by another process, because it could not say for ${leaseMs / 1000} s that it lives ` +
        '(a machine that slept, or a database that was away?). Its rows are taken over; run again to finish what is left',
    )
  }
}

/**
 * What somebody may want to be told of.
 * - `completed`: a run is done, and has enriched rows
 * - `no_matches`: a run is done, and has enriched none
 * - `budget_reached`: a run stopped at its budget
 * - `failed`: a run could not go on, or the service refuses us
 * - `jobs_overdue`: jobs passed their deadline without a delivery
 */
export const NOTIFICATION_KINDS = [
  'completed',
  'no_matches',
  'budget_reached',
  'failed',
  'jobs_overdue',
] as const
export type NotificationKind = (typeof NOTIFICATION_KINDS)[number]

export interface FinishedRun {
  readonly status: 'completed' | 'budget_reached' | 'interrupted' | 'unauthorized' | 'failed'
  readonly rows: { readonly picked: number; readonly enriched: number }
}

/** What a run's end is to whoever wants to be told. Null: an interrupted run is carried on by the next one. Pure. */
export function toNotificationKind({ status, rows }: FinishedRun): NotificationKind | null {
  switch (status) {
    case 'completed':
      return rows.enriched > 0 ? 'completed' : 'no_matches'
    case 'budget_reached':
      return 'budget_reached'
    case 'unauthorized':
    case 'failed':
      return 'failed'
    case 'interrupted':
      return null
  }
}
