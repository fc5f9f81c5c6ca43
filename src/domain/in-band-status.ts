import { firstPresent, toIdentifier, isObject, toNumberText } from './json.ts'
import type { JsonObject } from './json.ts'

/** What an object says about itself in words and flags, apart from any record in it. */
export type InBandStatus = {
  /**
   * A flag (`success: false`) outweighs whatever looks like a record; an error or a status of 400 and above
   * outweighs fields without a confidence; words, which a record may hold too, count only where no field of a
   * record is.
   */
  strength: 'flag' | 'error' | 'words'
  reading: { outcome: 'not_found' } | { outcome: 'unreadable'; reason: string }
}

/** Statuses that are about the key, the account or the rate, whatever the words beside them. */
const ACCOUNT_STATUSES: ReadonlySet<number> = new Set([401, 402, 403, 408, 429])

const STATUS_FIELDS = ['status', 'status_code', 'statusCode']

const NO_MATCH =
  /\b(?:not[\s_-]?found|no[\s_-](?:match|matches|result|results|record|records|data|person|company)|unknown[\s_-](?:person|company)|does(?:n't|[\s_-]not)[\s_-]exist|unmatched)\b/i

/** Words of an outage or of a limit: beside one of these, "no data" is not a miss. */
const OUTAGE =
  /time[sd]?[\s_-]?out|unavailable|overload|try[\s_-]again|quota|rate[\s_-]?limit|exceed|internal|unauthori|forbidden|credit|maintenance/i

const FAULT = /error|fail|limit|denied/i

/**
 * Reads flags that real services put into an answer with status 200: `success: false`, `ok: false`, `error`,
 * `status: "failed"`, `status: 404`, `found: false`. Such an answer is a miss only when it says so in words
 * or by the number 404; else it is a fault, because an outage recorded as a miss would hide for a month.
 * Null when nothing is said.
 */
export function readInBandStatus(value: JsonObject): InBandStatus | null {
  if (['found', 'matched', 'match'].some((flag) => ownField(value, flag) === false)) {
    return { strength: 'flag', reading: { outcome: 'not_found' } }
  }
  const refused = ['success', 'ok'].find((flag) => ownField(value, flag) === false)
  if (refused !== undefined) return { strength: 'flag', reading: classifyFlag(value, `${refused}: false`) }
  const error = ['error', 'errors'].find((field) => isPresent(ownField(value, field)))
  if (error !== undefined) return { strength: 'error', reading: classifyFlag(value, `a field "${error}"`) }

  const status = Number(toNumberText(firstPresent(value, STATUS_FIELDS)))
  if (status >= 400 && status <= 599) {
    return { strength: 'error', reading: classifyFlag(value, `a status of ${status}`) }
  }
  const words = collectMessages(value)
  if (mentionsMiss(words)) return { strength: 'words', reading: { outcome: 'not_found' } }
  if (FAULT.test(words) || OUTAGE.test(words))
    return { strength: 'words', reading: { outcome: 'unreadable', reason: 'a message of a fault' } }
  return null
}

function classifyFlag(value: JsonObject, flag: string): InBandStatus['reading'] {
  const numbers = [value, ownField(value, 'error')]
    .filter(isObject)
    .flatMap((at) => [...STATUS_FIELDS, 'code'].map((field) => Number(toIdentifier(ownField(at, field)))))
  const isMiss = numbers.includes(404) || mentionsMiss(collectMessages(value))
  const isOutage = numbers.some((number) => (number >= 500 && number <= 599) || ACCOUNT_STATUSES.has(number))
  if (isMiss && !isOutage) return { outcome: 'not_found' }
  return { outcome: 'unreadable', reason: `${flag} and no word of a miss` }
}

const mentionsMiss = (words: string): boolean => NO_MATCH.test(words) && !OUTAGE.test(words)

const ownField = (value: JsonObject, field: string): unknown =>
  Object.hasOwn(value, field) ? value[field] : undefined

const isPresent = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : value !== null && value !== undefined && value !== '' && value !== false

/** The texts in which a service explains itself, each cut short so that no long one is searched. */
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
