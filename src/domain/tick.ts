/**
 * A moment of the schedule: `waiting → running → done`, or `skipped`. One whose process died, or was told to stop, is
 * begun again by another.
 */
export const Tick = { waiting: 'waiting', running: 'running', done: 'done', skipped: 'skipped' } as const
export type TickState = (typeof Tick)[keyof typeof Tick]

/** A tick that was begun so often and never ended takes its processes with it: it is given up. */
export const TICK_ATTEMPTS = 5

/** A schedule that is not to catch up still runs a tick that is late by no more than this, in milliseconds. */
export const LATE_MS = 60_000

/**
 * What is to become of the latest tick of a schedule that no process has recorded yet.
 * @param known whether any tick of this schedule was recorded before: one that is new has missed nothing
 */
export function fateOfTick(
  at: number,
  now: number,
  schedule: { readonly known: boolean; readonly catchUp: boolean },
): { readonly state: 'waiting' | 'skipped'; readonly reason: string | null } {
  if (now - at <= LATE_MS) return { state: Tick.waiting, reason: null }
  if (!schedule.known) return { state: Tick.skipped, reason: 'it was before the schedule was known' }
  if (!schedule.catchUp)
    return { state: Tick.skipped, reason: 'nothing was there to run it, and catchUp is false' }
  return { state: Tick.waiting, reason: 'missed, and caught up' }
}
