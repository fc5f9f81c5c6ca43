import type { Heard } from '../../store/rate-told.ts'
import type { Field } from './fields.ts'
import { count, distance, percent } from '../../domain/numbers.ts'

/** What is said wherever another client of the key shows. */
export const FOREIGN = 'another client spends the same key: room is left for it'

export const BANNED = 'the service bans the key for a while, because it was called too often (403 after 429)'

/** How much of the limit is used, when there is more, and why it waits, as the process that calls told it. */
export function toldFields(told: Heard | null, now: number): Field[] {
  if (told === null) return []
  return [
    ...used(told, now),
    ...(told.live ? window(told, now) : []),
    ...(told.live && told.stall_reason !== null ? [['Waits', told.stall_reason] as const] : []),
    ...(told.throttled > 0
      ? [['Refused', `${count(told.throttled)} of its calls were answered 429`] as const]
      : []),
    ...(told.state === 'banned'
      ? [['Banned', BANNED, 'tried again with one call now and then'] as const]
      : []),
    ...(told.shared_key ? [['Shared', FOREIGN, 'give each client a key of its own'] as const] : []),
  ]
}

function used(told: Heard, now: number): Field[] {
  if (told.utilisation === null || told.permitted === null) return []
  const when = told.live ? 'so far' : distance(told.reported_at, now)
  return [
    [
      'Used',
      `${percent(told.utilisation)} of the limit, ${when}`,
      `${count(told.used)} of the ${count(told.permitted)} calls permitted meanwhile`,
    ],
  ]
}

function window(told: Heard, now: number): Field[] {
  if (told.limit === null) return []
  const next = told.next_window_at === null ? null : new Date(told.next_window_at)
  const left = next === null || next.getTime() <= now ? '' : `the next ${distance(next, now)}`
  return [['Window', `${count(told.window_used)} of ${count(told.limit)} used`, left]]
}
