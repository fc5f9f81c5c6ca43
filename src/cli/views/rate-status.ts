import type { RateReport } from '../../actions/status.ts'
import type { LabeledText } from './layout.ts'
import { formatCount, formatPercent, relativeTime } from '../../util/format.ts'

export const SHARED_KEY_NOTICE = 'another client uses the same API key; capacity is left for it'

export const BANNED_NOTICE = 'the service has temporarily banned the API key (403 after 429)'

/** The rate limit as the leader last reported it: utilisation, window, and why calls are stalled. */
export function rateStatusFields(status: RateReport | null, now: number): LabeledText[] {
  if (status === null) return []
  return [
    ...utilisationFields(status, now),
    ...(status.live ? windowFields(status, now) : []),
    ...(status.live && status.stall_reason !== null ? [['Waiting', status.stall_reason] as const] : []),
    ...(status.throttled > 0
      ? [['Throttled', `${formatCount(status.throttled)} calls were answered 429`] as const]
      : []),
    ...(status.state === 'banned'
      ? [['Banned', BANNED_NOTICE, 'retried with one call from time to time'] as const]
      : []),
    ...(status.shared_key ? [['Shared', SHARED_KEY_NOTICE, 'give each client its own key'] as const] : []),
  ]
}

function utilisationFields(status: RateReport, now: number): LabeledText[] {
  if (status.utilisation === null || status.permitted === null) return []
  const when = status.live ? 'so far' : relativeTime(status.reported_at, now)
  return [
    [
      'Used',
      `${formatPercent(status.utilisation)} of the limit, ${when}`,
      `${formatCount(status.used)} of the ${formatCount(status.permitted)} permitted calls`,
    ],
  ]
}

function windowFields(status: RateReport, now: number): LabeledText[] {
  if (status.limit === null) return []
  const next = status.next_window_at === null ? null : new Date(status.next_window_at)
  const left = next === null || next.getTime() <= now ? '' : `resets ${relativeTime(next, now)}`
  return [['Window', `${formatCount(status.window_used)} of ${formatCount(status.limit)} used`, left]]
}
