import type { RateReport } from '../../domain/report/status.ts'
import type { Field } from './layout.ts'
import { CHANGE_LIMIT, formatOverstated } from '../../domain/rate-status.ts'
import { formatCount, formatPercent, relativeTime } from '../../util/text.ts'

export const SHARED_KEY_NOTICE = 'another client uses the same API key; capacity is left for it'

export const BANNED_NOTICE = 'the service has temporarily banned the API key (403 after 429)'

/** The rate limit as the leader last reported it: utilisation, window, and why calls are stalled. */
export function rateStatusFields(status: RateReport | null, now: number): Field[] {
  if (status === null) return []
  const { live, throttled } = status
  return [
    utilisationField(status, now),
    live && windowField(status, now),
    live && status.stall_reason !== null && ['Waiting', status.stall_reason],
    throttled > 0 && ['Throttled', `${formatCount(throttled)} calls were answered 429`],
    status.state === 'banned' && ['Banned', BANNED_NOTICE, 'retried with one call from time to time'],
    status.shared_key && SHARED_KEY_FIELD,
    overstatedField(status),
  ]
}

function overstatedField({ overstated }: RateReport): Field {
  if (overstated === null) return null
  const { limit: calls, window_ms: windowMs, endpoint, granted } = overstated
  return ['Too high', formatOverstated({ calls, windowMs, endpoint, granted }), CHANGE_LIMIT]
}

/** Another client uses the key, and what to do about it. */
export const SHARED_KEY_FIELD: Field = ['Shared', SHARED_KEY_NOTICE, 'give each client its own key']

function utilisationField(status: RateReport, now: number): Field {
  const { utilisation, used, permitted } = status
  if (utilisation === null || permitted === null) return null
  const when = status.live ? 'so far' : relativeTime(status.reported_at, now)
  const of = `${formatCount(used)} of the ${formatCount(permitted)} permitted calls`
  return ['Used', `${formatPercent(utilisation)} of the limit, ${when}`, of]
}

function windowField(status: RateReport, now: number): Field {
  if (status.limit === null) return null
  const next = status.next_window_at === null ? null : new Date(status.next_window_at)
  const left = next === null || next.getTime() <= now ? '' : `resets ${relativeTime(next, now)}`
  return ['Window', `${formatCount(status.window_used)} of ${formatCount(status.limit)} used`, left]
}
