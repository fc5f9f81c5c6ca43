import { firstPresent, toIdentifier, isObject, toNumberText } from './json.ts'
import type { JsonObject } from './json.ts'

/** The outcome that an object reports in flags and words, apart from any record in it. */
export type InBandStatus = {
  /**
   * A flag (`success: false`) outweighs anything that looks like a record; an error or a status of 400 and above
   * outweighs fields without a confidence; words, which a record may contain too, count only without fields of a record.
   */
  strength: 'flag' | 'error' | 'words'
  reading: { outcome: 'not_found' } | { outcome: 'unreadable'; reason: string }
}

/** Statuses about the key, the account or the rate limit, whatever the text beside them. */
const ACCOUNT_STATUSES: ReadonlySet<number> = new Set([401, 402, 403, 408, 429])

const STATUS_FIELDS = ['status', 'status_code', 'statusCode']

const NO_MATCH =
  /\b(?:not[\s_-]?found|no[\s_-](?:match|matches|result|results|record|records|data|person|company)|unknown[\s_-](?:person|company)|does(?:n't|[\s_-]not)[\s_-]exist|unmatched)\b/i

/** Words of an outage or a limit; beside one of these, "no data" is not a miss. */
const OUTAGE =
  /time[sd]?[\s_-]?out|unavailable|overload|try[\s_-]again|quota|rate[\s_-]?limit|exceed|internal|unauthori|forbidden|credit|maintenance/i

const FAULT = /error|fail|limit|denied/i

/**
 * Reads flags that services put into a response with status 200: `success: false`, `ok: false`, `error`,
 * `status: "failed"`, `status: 404`, `found: false`. Such a response is a miss only if its text or a 404 says so; else it
 * is a fault, because an outage stored as a miss would stay hidden for a month. Null if there are no such flags.
 */
export function readInBandStatus(value: JsonObject): InBandStatus | null {
  if (['found', 'matched', 'match'].some((flag) => ownField(value, flag) === false)) {
    return { strength: 'flag', reading: { outcome: 'not_found' } }
  }
  const failedFlag = ['success', 'ok'].find((flag) => ownField(value, flag) === false)
  if (failedFlag !== undefined)
    return { strength: 'flag', reading: classifyFlag(value, `${failedFlag}: false`) }
  const error = ['error', 'errors'].find((field) => isPresent(ownField(value, field)))
  if (error !== undefined) return { strength: 'error', reading: classifyFlag(value, `a field "${error}"`) }

  const status = Number(toNumberText(firstPresent(value, STATUS_FIELDS)))
  if (status >= 400 && status <= 599) {
    return { strength: 'error', reading: classifyFlag(value, `a status of ${status}`) }
  }
  const words = collectMessages(value)
  if (words === '') return null
  if (mentionsMiss(words)) return { strength: 'words', reading: { outcome: 'not_found' } }
  if (FAULT.test(words) || OUTAGE.test(words))
    return { strength: 'words', reading: { outcome: 'unreadable', reason: 'an error message' } }
  return null
}

function classifyFlag(value: JsonObject, flag: string): InBandStatus['reading'] {
  const numbers = [value, ownField(value, 'error')]
    .filter(isObject)
    .flatMap((at) => [...STATUS_FIELDS, 'code'].map((field) => Number(toIdentifier(ownField(at, field)))))
  const isMiss = numbers.includes(404) || mentionsMiss(collectMessages(value))
  const isOutage = numbers.some((number) => (number >= 500 && number <= 599) || ACCOUNT_STATUSES.has(number))
  if (isMiss && !isOutage) return { outcome: 'not_found' }
  return { outcome: 'unreadable', reason: `${flag}, without saying that there is no match` }
}

const mentionsMiss = (words: string): boolean => NO_MATCH.test(words) && !OUTAGE.test(words)

const ownField = (value: JsonObject, field: string): unknown =>
  Object.hasOwn(value, field) ? value[field] : undefined

const isPresent = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : value !== null && value !== undefined && value !== '' && value !== false

/** The texts that explain the response, each truncated so that searching stays cheap. */
function collectMessages(value: JsonObject): string {
  const words: string[] = []
  const take = (from: unknown): void => {
    if (typeof from === 'string') words.push(from.slice(0, 300))
  }
  const errors = ownField(value, 'errors')
  const places = [value, ownField(value, 'error'), Array.isArray(errors) ? errors[0] : errors]
  for (const place of places) {
    take(place)
    if (!isObject(place)) continue
    for (const field of ['message', 'error', 'reason', 'detail', 'code', 'type', 'status']) {
      take(ownField(place, field))
    }
  }
  return words.join('\n')
}
