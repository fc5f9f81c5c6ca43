/**
 * One firing of a schedule: `waiting → running → done`, or `skipped`. If its process dies or is stopped, another process
 * starts it again.
 */
export const ScheduledRun = {
  waiting: 'waiting',
  running: 'running',
  done: 'done',
  skipped: 'skipped',
} as const

/** A scheduled run that was started this often without finishing may be crashing its processes: it is given up. */
export const MAX_ATTEMPTS = 5

/** Why a scheduled run waits while another run uses one of its sources. */
export const QUEUED_REASON = 'waits for another run of its sources'

/** A run that is at most this late counts as on time, also one of a new schedule. */
const GRACE_MS = 60_000

/**
 * Decides on the latest firing of a schedule that no process has recorded yet.
 * @param schedule.known whether any firing of it was recorded before: a new schedule has missed nothing
 */
export function decideScheduledRun(
  at: number,
  now: number,
  schedule: { readonly known: boolean },
): { readonly state: 'waiting' | 'skipped'; readonly reason: string | null } {
  if (now - at <= GRACE_MS) return { state: ScheduledRun.waiting, reason: null }
  if (!schedule.known) return { state: ScheduledRun.skipped, reason: 'before the schedule was known' }
  return { state: ScheduledRun.waiting, reason: 'missed; catching up' }
}
