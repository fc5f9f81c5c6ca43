/**
 * A moment of the schedule: `waiting → running → done`, or `skipped`. One whose process died, or was told to stop, is
 * begun again by another.
 */
export const ScheduledRun = {
  waiting: 'waiting',
  running: 'running',
  done: 'done',
  skipped: 'skipped',
} as const
export type ScheduledRunState = (typeof ScheduledRun)[keyof typeof ScheduledRun]

/** A tick that was begun so often and never ended takes its processes with it: it is given up. */
export const MAX_ATTEMPTS = 5

/** A schedule that is not to catch up still runs a tick that is late by no more than this, in milliseconds. */
export const GRACE_MS = 60_000

/**
 * What is to become of the latest tick of a schedule that no process has recorded yet.
 * @param known whether any tick of this schedule was recorded before: one that is new has missed nothing
 */
export function decideScheduledRun(
  at: number,
  now: number,
  schedule: { readonly known: boolean; readonly catchUp: boolean },
): { readonly state: 'waiting' | 'skipped'; readonly reason: string | null } {
  if (now - at <= GRACE_MS) return { state: ScheduledRun.waiting, reason: null }
  if (!schedule.known) return { state: ScheduledRun.skipped, reason: 'it was before the schedule was known' }
  if (!schedule.catchUp)
    return { state: ScheduledRun.skipped, reason: 'nothing was there to run it, and catchUp is false' }
  return { state: ScheduledRun.waiting, reason: 'missed, and caught up' }
}
