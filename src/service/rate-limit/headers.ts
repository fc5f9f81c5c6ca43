/** What one answer says about the rate limit. Null: not stated, or not in a credible form. */
export interface RateHeaders {
  /** Calls a window, 1 or more. */
  readonly limit: number | null
  /** Calls left after this one. */
  readonly remaining: number | null
  readonly reset: Reset | null
  /** The window's length in milliseconds, if a policy states it (`w=`). */
  readonly windowMs: number | null
  /** The service's clock in milliseconds since the epoch, to the second. */
  readonly date: number | null
}

/**
 * When the limit is renewed: an instant on the service's clock (ms since the epoch), or a delay from the answer. It may
 * have been rounded either way by less than `precision` milliseconds.
 */
export type Reset =
  | { readonly kind: 'instant'; readonly at: number; readonly precision: number }
  | { readonly kind: 'delay'; readonly ms: number; readonly precision: number }

export type Headers = Record<string, string | string[] | undefined>

type HeaderValue = string | string[] | undefined

const DAY_MS = 24 * 60 * 60_000

/** For rounding; and without a `Date` this machine's clock stands for the service's, and either may be off by minutes. */
const DAY_TOLERANCE_MS = 10 * 60_000

/** The documented family first. Each is read whole: Limit of one family says nothing about Remaining of another. Two may be two limits. */
const FAMILIES = [
  ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
  ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  ['x-rate-limit-limit', 'x-rate-limit-remaining', 'x-rate-limit-reset'],
] as const

/**
 * Reads `X-RateLimit-*`, `RateLimit-*` (draft-ietf-httpapi-ratelimit-headers 03 to 10, also the single header `RateLimit`
 * of 07 and later) and `X-Rate-Limit-*`. Of several limits in one answer the one with the least left is read. Ignored
 * are values that are no numbers (`unlimited`, a map by minute and day), a limit of 0 or less (an unlimited plan), and a Reset
 * more than a day ahead.
 * @param now when the answer arrived, in milliseconds since the epoch: the service's clock if there is no `Date`
 */
export function readRateHeaders(headers: Headers, now: number): RateHeaders {
  const policies = readPolicies(headers['ratelimit-policy'] ?? headers['ratelimit-limit'])
  const stated = FAMILIES.map((family) => readFamily(headers, family))
  const values = leastOf([...stated, readCombined(headers['ratelimit'], policies)])
  const policy = findPolicy(values, policies)
  const limit = values.limit ?? policy?.limit ?? null
  const isUnlimited = limit !== null && limit < 1
  const date = parseHttpDate(textsOf(headers['date'])[0] ?? '')
  return {
    limit: isUnlimited ? null : limit,
    remaining: isUnlimited || values.remaining === null ? null : clampRemaining(values.remaining, limit),
    reset: isWithinADay(values.reset, date ?? now) ? values.reset : null,
    windowMs: policy?.windowMs ?? null,
    date,
  }
}

/** Numbers as they were sent, also those below 0. */
interface RateValues {
  readonly limit: number | null
  readonly remaining: number | null
  readonly reset: Reset | null
  readonly name?: string | undefined
}

interface Policy {
  readonly name: string
  readonly limit: number | null
  readonly windowMs: number
}

const NO_VALUES: RateValues = { limit: null, remaining: null, reset: null }

const hasValue = ({ limit, remaining, reset }: RateValues): boolean =>
  limit !== null || remaining !== null || reset !== null

/** The limit with the least left; of those that say no number of calls the first. */
function leastOf(stated: readonly RateValues[]): RateValues {
  const counting = stated.filter(({ limit, remaining }) => remaining !== null && (limit ?? 1) >= 1)
  return withLeastLeft(counting) ?? stated.find(hasValue) ?? NO_VALUES
}

const withLeastLeft = (values: readonly RateValues[]): RateValues | undefined =>
  values.toSorted((a, b) => (a.remaining ?? 0) - (b.remaining ?? 0))[0]

/** A count below 0 is none left; without a limit it is the `-1` of an unlimited plan. */
const clampRemaining = (remaining: number, limit: number | null): number | null =>
  remaining >= 0 ? remaining : limit === null ? null : 0

/** What is further ahead is another unit, or an error. */
function isWithinADay(reset: Reset | null, now: number): boolean {
  if (reset === null) return false
  return (reset.kind === 'delay' ? reset.ms : reset.at - now) <= DAY_MS + DAY_TOLERANCE_MS
}

/** A proxy may have joined several limits with commas: the one with the least left, if all headers have as many. */
function readFamily(
  headers: Headers,
  [limit, remaining, reset]: readonly [string, string, string],
): RateValues {
  if ((headers[limit] ?? headers[remaining] ?? headers[reset]) === undefined) return NO_VALUES
  const [limits, counts] = [readNumbers(headers[limit]), readNumbers(headers[remaining])]
  const resets = splitReset(headers[reset])
  if (limits.length < 2 || limits.length !== counts.length)
    return { limit: least(limits), remaining: least(counts), reset: readReset(resets[0]) }
  const at = counts.indexOf(Math.min(...counts))
  const own = resets.length === counts.length ? resets[at] : resets[0]
  return { limit: limits[at] ?? null, remaining: counts[at] ?? null, reset: readReset(own) }
}

/**
 * `limit=100, remaining=50, reset=5` (draft 07), and `"burst";r=5;t=1, "daily";r=900;t=3600` (draft 08 and later), each
 * with the policy of its name.
 */
function readCombined(value: HeaderValue, policies: readonly Policy[]): RateValues {
  if (value === undefined) return NO_VALUES
  const text = split(value).join(',')
  const remaining = readParameter(text, 'remaining')
  if (remaining !== null)
    return { limit: readParameter(text, 'limit'), remaining, reset: readDelay(text, 'reset') }
  const items = split(value).flatMap((part): RateValues[] => {
    const left = readParameter(part, 'r')
    if (left === null) return []
    const name = nameOf(part)
    const limit = policies.find((policy) => policy.name === name)?.limit ?? null
    return [{ name, limit, remaining: left, reset: readDelay(part, 't') }]
  })
  return withLeastLeft(items) ?? NO_VALUES
}

function readDelay(text: string, name: string): Reset | null {
  const seconds = readParameter(text, name)
  return seconds === null ? null : delayOf(seconds * 1000)
}

/** `100;w=60` and `"default";q=100;w=60`. */
function readPolicies(value: HeaderValue): Policy[] {
  return split(value).flatMap((part) => {
    const seconds = readParameter(part, 'w')
    if (seconds === null || seconds <= 0) return []
    const limit = readParameter(part, 'q') ?? readNumber(part.split(';')[0])
    return [{ name: nameOf(part), limit, windowMs: seconds * 1000 }]
  })
}

/** The policy of the values: by name, or else by limit; if neither is stated, the only one. */
function findPolicy({ name, limit }: RateValues, policies: readonly Policy[]): Policy | null {
  if (name !== undefined) return policies.find((policy) => policy.name === name) ?? null
  if (limit !== null) return policies.find((policy) => policy.limit === limit) ?? null
  return policies.length === 1 ? (policies[0] ?? null) : null
}

const nameOf = (part: string): string => part.split(';')[0]?.trim() ?? ''

function readParameter(text: string, name: string): number | null {
  const match = new RegExp(`(?:^|[;,\\s])${name}\\s*=\\s*"?(\\d+(?:\\.\\d+)?)`).exec(text)
  return match === null ? null : Number(match[1])
}

/** The numbers in a header, without their parameters; none if one of them is no number. */
function readNumbers(value: HeaderValue): number[] {
  const numbers = split(value).map((part) => readNumber(part.split(';')[0]))
  return numbers.every((number) => number !== null) ? numbers : []
}

/** A whole number, also written `-1` (a count below 0) or `50.0`; no larger than can be counted. */
function readNumber(text: string | undefined): number | null {
  if (text === undefined || !/^\s*-?\d+(?:\.\d+)?\s*$/.test(text)) return null
  return Math.min(Number.MAX_SAFE_INTEGER, Math.floor(Number(text)))
}

const least = (numbers: readonly number[]): number | null =>
  numbers.length === 0 ? null : Math.min(...numbers)

const textsOf = (value: HeaderValue): readonly string[] =>
  typeof value === 'string' ? [value] : (value ?? [])

const split = (value: HeaderValue): string[] => textsOf(value).flatMap((text) => text.split(','))

/** A date has a comma of its own. */
const splitReset = (value: HeaderValue): (string | undefined)[] =>
  typeof value === 'string' && /[a-z]{3},/i.test(value) ? [value] : split(value)

/** Whole seconds may have been rounded to them, in whatever form they are written. */
const precisionOf = (ms: number): number => [1000, 100, 10].find((unit) => ms % unit === 0) ?? 1

const instantAt = (at: number): Reset => ({ kind: 'instant', at, precision: precisionOf(at) })

const delayOf = (ms: number): Reset => ({ kind: 'delay', ms, precision: precisionOf(ms) })

/** What a number is since the epoch, by its magnitude: nano-, micro- and milliseconds, seconds. Below, it is a delay in seconds. */
const EPOCH_UNITS = [
  { from: 1e17, ms: 1e-6 },
  { from: 1e14, ms: 1e-3 },
  { from: 1e11, ms: 1 },
  { from: 1e9, ms: 1000 },
]

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Epoch seconds and smaller units, seconds from now, an ISO or HTTP date, and `6m0s` or `20ms`. */
function readReset(text: string | undefined): Reset | null {
  if (text === undefined) return null
  const trimmed = text.trim()
  if (/^\d+(?:\.\d+)?$/.test(trimmed)) {
    const value = Number(trimmed)
    const unit = EPOCH_UNITS.find(({ from }) => value >= from)
    return unit === undefined ? delayOf(value * 1000) : instantAt(Math.round(value * unit.ms))
  }
  const at = parseHttpDate(trimmed)
  if (at !== null) return instantAt(at)
  const ms = readDuration(trimmed)
  return ms === null ? null : delayOf(ms)
}

function readDuration(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd])\s*)+$/.test(text)) return null
  let total = 0
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)) {
    total += Number(count) * (UNIT_MS[unit ?? ''] ?? 0)
  }
  return total
}

/** IMF-fixdate, RFC 850 and asctime, the three date forms of RFC 9110 section 5.6.7. */
const HTTP_DATE = /^[A-Z][a-z]{2,8},? [0-9A-Za-z:, -]{15,30}$/

const ISO_DATE = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})$/

/**
 * Reads Retry-After (RFC 9110 section 10.2.3): how many milliseconds to wait from `now` (ms since the epoch). Seconds,
 * also decimal, or a date; of several headers the longest wait. What lies in the past is 0, more than 24 hours is 24
 * hours (an error or a ban, tried again then), and what cannot be read is null. Pass the answer's `Date` as `now` if
 * there is one, because a date is by the server's clock.
 */
export function parseRetryAfter(value: HeaderValue, now: number): number | null {
  const waits = textsOf(value)
    .map((text) => parseWait(text.trim(), now))
    .filter((wait) => wait !== null)
  return waits.length === 0 ? null : Math.max(...waits)
}

function parseWait(text: string, now: number): number | null {
  if (/^[+-]?\d+(?:\.\d+)?$/.test(text)) return clampWait(Math.ceil(Number(text) * 1000))
  const date = parseHttpDate(text)
  return date === null ? null : clampWait(date - now)
}

const clampWait = (wait: number): number => Math.min(Math.max(0, wait), DAY_MS)

/** The last date that was read: responses of one second carry the same, and reading it takes as long as all other headers. */
let lastDate: { readonly text: string; readonly at: number | null } = { text: '', at: null }

/** A date of HTTP or ISO 8601 in ms since the epoch; null for everything else that Date.parse would guess. */
export function parseHttpDate(text: string): number | null {
  if (text !== lastDate.text) lastDate = { text, at: readHttpDate(text) }
  return lastDate.at
}

function readHttpDate(text: string): number | null {
  if (!HTTP_DATE.test(text) && !ISO_DATE.test(text)) return null
  // The asctime form has no zone and means GMT; Date.parse would take it for local time.
  const time = Date.parse(/(?:GMT|UTC|Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text} GMT`)
  return Number.isNaN(time) ? null : time
}
