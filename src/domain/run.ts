/** `running → completed | interrupted | failed`. A run whose lease expired is marked interrupted by another process. */
export const Run = {
  running: 'running',
  completed: 'completed',
  interrupted: 'interrupted',
  failed: 'failed',
} as const
export type RunState = (typeof Run)[keyof typeof Run]

/** What started a run; decides its priority at the limiter. */
export type Trigger = 'manual' | 'schedule' | 'follow' | 'backfill'

/** Live sync goes before scheduled and manual runs, and these before a backfill. */
export function toPriority(trigger: Trigger): 'urgent' | 'normal' | 'low' {
  if (trigger === 'follow') return 'urgent'
  return trigger === 'backfill' ? 'low' : 'normal'
}

/** The reason of an interrupted run. @param cancelledBy null: its own process was interrupted */
export const describeInterruption = (cancelledBy: string | null): string =>
  cancelledBy === null ? 'stopped on request' : `cancelled by ${cancelledBy}`

/** A run missed its heartbeats, and another process took over its rows. Nothing is lost. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError'
  constructor(run: number, leaseMs: number) {
    super(
      `run ${run} lost its lease: no heartbeat for ${leaseMs / 1000} s (machine asleep, or database unreachable?). ` +
        'Another process took over its rows. Run again to finish',
    )
  }
}

/**
 * What notifications are about:
 * - `completed`: a run finished and enriched rows
 * - `no_matches`: a run finished and enriched none
 * - `budget_reached`: a run stopped at its budget
 * - `failed`: a run could not continue, or the service rejected the keys
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

/** The notification for the end of a run; null for an interrupted run, which the next one continues. */
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
