import type { RateReport } from '../../actions/status.ts'
import type { LabeledText } from './layout.ts'
import { formatCount, formatDuration, formatPercent, relativeTime } from '../../util/format.ts'

/** What is said wherever another client of the key shows. */
export const SHARED_KEY_NOTICE = 'another client spends the same key: room is left for it'

export const BANNED_NOTICE =
  'the service bans the key for a while, because it was called too often (403 after 429)'

/** How much of the limit is used, when there is more, and why it waits, as the process that calls told it. */
export function rateStatusFields(told: RateReport | null, now: number): LabeledText[] {
  if (told === null) return []
  return [
    ...used(told, now),
    ...(told.live ? window(told, now) : []),
    ...(told.live && told.stall_reason !== null ? [['Waits', told.stall_reason] as const] : []),
    ...(told.throttled > 0
      ? [['Refused', `${formatCount(told.throttled)} of its calls were answered 429`] as const]
      : []),
    ...(told.state === 'banned'
      ? [['Banned', BANNED_NOTICE, 'tried again with one call now and then'] as const]
      : []),
    ...(told.shared_key ? [['Shared', SHARED_KEY_NOTICE, 'give each client a key of its own'] as const] : []),
  ]
}

function used(told: RateReport, now: number): LabeledText[] {
  if (told.utilisation === null || told.permitted === null) return []
  const when = told.live ? 'so far' : relativeTime(told.reported_at, now)
  return [
    [
      'Used',
      `${formatPercent(told.utilisation)} of the limit, ${when}`,
      `${formatCount(told.used)} of the ${formatCount(told.permitted)} calls permitted meanwhile`,
    ],
  ]
}

function window(told: RateReport, now: number): LabeledText[] {
  if (told.limit === null) return []
  const next = told.next_window_at === null ? null : new Date(told.next_window_at)
  const left = next === null || next.getTime() <= now ? '' : `the next ${relativeTime(next, now)}`
  return [['Window', `${formatCount(told.window_used)} of ${formatCount(told.limit)} used`, left]]
}

/**
 * `200 calls in 2 s`, or `200 calls in at most 7 min`.
 * @param atMostMs a bound of the window, where it is not known: null where there is none
 */
export function formatLimit(
  limit: number,
  windowMs: number | null,
  atMostMs: number | null | undefined = null,
): string {
  const calls = `${formatCount(limit)} ${limit === 1 ? 'call' : 'calls'}`
  if (windowMs !== null) return `${calls} in ${formatDuration(windowMs)}`
  return atMostMs == null ? `${calls} a window` : `${calls} in at most ${formatDuration(atMostMs)}`
}
