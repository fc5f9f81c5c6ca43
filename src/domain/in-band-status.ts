import { firstPresent, toIdentifier, isObject, toNumberText } from './json.ts'
import type { JsonObject } from './json.ts'

/** The outcome that an object reports in flags and words, apart from any record in it. */
type InBandStatus = {
  /**
   * A flag (`success: false`) outweighs anything that looks like a record; an error or a status of 400 and above
   * outweighs fields without a confidence; words, which a record may contain too, count only without fields of a record.
   */
  strength: 'flag' | 'error' | 'words'
  reading: { outcome: 'not_found' } | { outcome: 'unreadable'; reason: string }
  /** The result is still to come. */
  isPending: boolean
}

/** Statuses about the key, the account or the rate limit, whatever the text beside them. */
const ACCOUNT_STATUSES: ReadonlySet<number> = new Set([401, 402, 403, 408, 425, 429])

const MISS_FLAGS = ['found', 'matched', 'match']
const SUCCESS_FLAGS = ['success', 'ok']

const STATUS_FIELDS = [
  'status',
  'status_code',
  'statusCode',
  'http_status',
  'httpStatus',
  'http_code',
  'httpCode',
]

/** Not the statuses of HTTP only: a record may have a code too. */
const CODE_FIELDS = ['code', 'response_code', 'responseCode', ...STATUS_FIELDS]

const ERROR_FIELDS = [
  'error',
  'errors',
  'error_message',
  'errorMessage',
  'error_code',
  'errorCode',
  'exception',
]

const STATE_FIELDS = ['status', 'state', 'outcome']

const MESSAGE_FIELDS = ['message', 'reason', 'detail', 'code', 'type', ...STATE_FIELDS, ...ERROR_FIELDS]

/** What an object without any of these says is in its other fields. */
const SIGNALS: ReadonlySet<string> = new Set([
  ...MISS_FLAGS,
  ...SUCCESS_FLAGS,
  ...CODE_FIELDS,
  ...MESSAGE_FIELDS,
])

const NO_MATCH =
  /\b(?:not[\s_-]?found|no[\s_-](?:match|matches|result|results|record|records|data|person|company)|unknown[\s_-](?:person|company)|does(?:n't|[\s_-]not)[\s_-]exist|unmatched)\b/i

/** Words of an outage or a limit; beside one of these, "no data" is not a miss. */
const OUTAGE =
  /time[sd]?[\s_-]?out|unavailable|overload|try[\s_-]again|retry|quota|rate[\s_-]?limit|throttl|exceed|internal|unauthori|forbidden|credit|maintenance|cancel|abort|expired|not[\s_-]processed|skipped/i

const FAULT = /error|fail|limit|denied/i

/** A state that is followed by a result. */
const PENDING =
  /^(?:pending|processing|in[\s_-]?progress|in[\s_-]?queue|queued|running|waiting|accepted|submitted|scheduled|started|retrying|not[\s_-]ready|incomplete|202)$/i

/**
 * Reads flags that services put into a response with status 200: `success: false`, `ok: false`, `error`,
 * `status: "failed"`, `status: 404`, `found: false`. Such a response is a miss only if its text or a 404 says so, or a flag
 * without an error beside it; else it is a fault, because an outage stored as a miss would stay hidden for a month. A state
 * before the end (`status: "pending"`) is no miss either. Null if there are no such flags.
 */
export function readInBandStatus(value: JsonObject): InBandStatus | null {
  // Most records have none, and each field is looked for several times below.
  if (!Object.keys(value).some((field) => SIGNALS.has(field))) return null
  const hasMissFlag = MISS_FLAGS.some((flag) => isNo(ownField(value, flag)))
  const failedFlag = SUCCESS_FLAGS.find((flag) => isNo(ownField(value, flag)))
  const strength = hasMissFlag || failedFlag !== undefined ? 'flag' : 'words'
  if (STATE_FIELDS.some((field) => PENDING.test(toIdentifier(ownField(value, field)) ?? '')))
    return {
      strength,
      isPending: true,
      reading: { outcome: 'unreadable', reason: 'a result that is not ready' },
    }
  const settled = (
    by: InBandStatus['strength'],
    reading: InBandStatus['reading'] = { outcome: 'not_found' },
  ): InBandStatus => ({ strength: by, reading, isPending: false })

  if (failedFlag !== undefined && !hasMissFlag)
    return settled('flag', classifyFlag(value, `${failedFlag}: false`))
  const error = ERROR_FIELDS.find((field) => isPresent(ownField(value, field)))
  if (error !== undefined)
    return settled(hasMissFlag ? 'flag' : 'error', classifyFlag(value, `a field "${error}"`))

  const status = Number(toNumberText(firstPresent(value, STATUS_FIELDS)))
  const [code] = toErrorCodes(value)
  const words = collectMessages(value)
  if (hasMissFlag) {
    const isFault = isOutage(value) || FAULT.test(words) || OUTAGE.test(words)
    return settled(
      'flag',
      isFault ? { outcome: 'unreadable', reason: 'no match beside an error' } : undefined,
    )
  }
  if (status >= 400 && status <= 599) return settled('error', classifyFlag(value, `a status of ${status}`))
  if (code !== undefined) return settled('words', classifyFlag(value, `a code of ${code}`))
  if (words === '') return null
  if (mentionsMiss(words)) return settled('words')
  if (FAULT.test(words) || OUTAGE.test(words))
    return settled('words', { outcome: 'unreadable', reason: 'an error message' })
  return null
}

function classifyFlag(value: JsonObject, flag: string): InBandStatus['reading'] {
  const isMiss = toErrorCodes(value).includes(404) || mentionsMiss(collectMessages(value))
  if (isMiss && !isOutage(value)) return { outcome: 'not_found' }
  return { outcome: 'unreadable', reason: `${flag}, without saying that there is no match` }
}

/** The statuses of 400 to 599 that it names, itself or in its error. */
const toErrorCodes = (value: JsonObject): number[] =>
  [value, ownField(value, 'error')]
    .filter(isObject)
    .flatMap((at) => CODE_FIELDS.map((field) => Number(toIdentifier(ownField(at, field)))))
    .filter((number) => number >= 400 && number <= 599)

const isOutage = (value: JsonObject): boolean =>
  toErrorCodes(value).some((number) => number >= 500 || ACCOUNT_STATUSES.has(number))

const mentionsMiss = (words: string): boolean => NO_MATCH.test(words) && !OUTAGE.test(words)

const ownField = (value: JsonObject, field: string): unknown =>
  Object.hasOwn(value, field) ? value[field] : undefined

const isNo = (value: unknown): boolean => value === false || value === 0 || value === 'false'

const isPresent = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : value !== null && value !== undefined && value !== '' && value !== 0 && !isNo(value)

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
    for (const field of MESSAGE_FIELDS) take(ownField(place, field))
  }
  return words.join('\n')
}
