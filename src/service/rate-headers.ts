import { readInstant, readReset } from './rate-reset.ts'
import type { Reset } from './rate-reset.ts'

/** What one answer says about the rate limit. Null: not said, or not in a form that can be believed. */
export interface RateHeaders {
  /** Calls a window, 1 or more. */
  readonly limit: number | null
  /** Calls left, this one counted. */
  readonly remaining: number | null
  readonly reset: Reset | null
  /** The window's length in milliseconds, where a policy names it (`w=`). */
  readonly windowMs: number | null
  /** The service's clock in milliseconds since the epoch, to the second. */
  readonly date: number | null
}

export type Headers = Record<string, string | string[] | undefined>

/**
 * The families of headers, the documented one first. Each is read whole: a Limit of one family says nothing
 * about a Remaining of another.
 */
const families = [
  ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
  ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  ['x-rate-limit-limit', 'x-rate-limit-remaining', 'x-rate-limit-reset'],
] as const

const NOTHING: Family = { limit: null, remaining: null, reset: null }

/**
 * Reads the rate limit off an answer: `X-RateLimit-*`, `RateLimit-*` (draft-ietf-httpapi-ratelimit-headers, 03
 * to 10, also the one header `RateLimit` of 07 and later) and `X-Rate-Limit-*`. Of several limits in one answer the one
 * with the least left counts, and all that is read belongs to it. What is no number (`unlimited`, a map by minute and
 * day), a limit of 0 or less (an unlimited plan) and a Reset more than a day ahead are left out, as if not sent.
 * @param now when the answer came, in milliseconds since the epoch: the service's clock where it has no `Date`
 */
export function readRateHeaders(headers: Headers, now: number): RateHeaders {
  const policies = readPolicies(headers['ratelimit-policy'] ?? headers['ratelimit-limit'])
  const said =
    families.map((family) => readFamily(headers, family)).find(saysSomething) ??
    readNamed(headers['ratelimit'], policies)
  const policy = policyOf(said, policies)
  const limit = said.limit ?? policy?.limit ?? null
  const isUnlimited = limit !== null && limit < 1
  const date = readInstant(first(headers['date']))
  return {
    limit: isUnlimited ? null : limit,
    remaining: isUnlimited || said.remaining === null ? null : leastLeft(said.remaining, limit),
    reset: isWithinADay(said.reset, date ?? now) ? said.reset : null,
    windowMs: policy?.windowMs ?? null,
    date,
  }
}

/** Numbers as they were sent, also those below 0. */
interface Family {
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

const saysSomething = (family: Family): boolean =>
  family.limit !== null || family.remaining !== null || family.reset !== null

/** A count below nothing is none left; without a limit it is the `-1` of an unlimited plan. */
const leastLeft = (remaining: number, limit: number | null): number | null =>
  remaining >= 0 ? remaining : limit === null ? null : 0

/** A window of more than a day is not believed: what is further ahead is another unit, or an error. */
function isWithinADay(reset: Reset | null, now: number): boolean {
  if (reset === null) return false
  return (reset.kind === 'delay' ? reset.ms : reset.at - now) <= day + slack
}

const day = 24 * 60 * 60_000

/** Roundings; and without a `Date` this machine's clock stands for the service's, and either may be off by minutes. */
const slack = 10 * 60_000

/** A proxy may have joined several limits with commas: the one with the least left, if all headers tell as many. */
function readFamily(headers: Headers, [limit, remaining, reset]: readonly [string, string, string]): Family {
  const [limits, counts] = [readNumbers(headers[limit]), readNumbers(headers[remaining])]
  const resets = partsOfReset(headers[reset])
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
function readNamed(value: string | string[] | undefined, policies: readonly Policy[]): Family {
  const text = parts(value).join(',')
  const remaining = parameter(text, 'remaining')
  if (remaining !== null) return { limit: parameter(text, 'limit'), remaining, reset: delayOf(text, 'reset') }
  const items = parts(value).flatMap((part): Family[] => {
    const left = parameter(part, 'r')
    if (left === null) return []
    const name = nameOf(part)
    const limit = policies.find((policy) => policy.name === name)?.limit ?? null
    return [{ name, limit, remaining: left, reset: delayOf(part, 't') }]
  })
  return items.sort((a, b) => (a.remaining ?? 0) - (b.remaining ?? 0))[0] ?? NOTHING
}

function delayOf(text: string, name: string): Reset | null {
  const seconds = parameter(text, name)
  return seconds === null ? null : { kind: 'delay', ms: seconds * 1000, precision: 1000 }
}

/** `100;w=60` and `"default";q=100;w=60`. */
function readPolicies(value: string | string[] | undefined): Policy[] {
  return parts(value).flatMap((part) => {
    const seconds = parameter(part, 'w')
    if (seconds === null || seconds <= 0) return []
    const limit = parameter(part, 'q') ?? readNumber(part.split(';')[0])
    return [{ name: nameOf(part), limit, windowMs: seconds * 1000 }]
  })
}

/** The policy that the numbers belong to: by its name, or else by its limit; where none is told, the only one. */
function policyOf({ name, limit }: Family, policies: readonly Policy[]): Policy | null {
  if (name !== undefined) return policies.find((policy) => policy.name === name) ?? null
  if (limit !== null) return policies.find((policy) => policy.limit === limit) ?? null
  return policies.length === 1 ? (policies[0] ?? null) : null
}

const nameOf = (part: string): string => part.split(';')[0]?.trim() ?? ''

function parameter(text: string, name: string): number | null {
  const match = new RegExp(`(?:^|[;,\\s])${name}\\s*=\\s*"?(\\d+(?:\\.\\d+)?)`).exec(text)
  return match === null ? null : Number(match[1])
}

/** The numbers in a header, without what is written after them; none where one of them is no number. */
function readNumbers(value: string | string[] | undefined): number[] {
  if (typeof value === 'string' && /^\d{1,15}$/.test(value)) return [Number(value)]
  const numbers = parts(value).map((part) => readNumber(part.split(';')[0]))
  return numbers.flatMap((number) => (number === null || numbers.includes(null) ? [] : [number]))
}

/** A whole number, also written `-1` (a count below nothing) or `50.0`; no larger than can be counted. */
function readNumber(text: string | undefined): number | null {
  if (text === undefined || !/^\s*-?\d+(?:\.\d+)?\s*$/.test(text)) return null
  return Math.min(Number.MAX_SAFE_INTEGER, Math.floor(Number(text)))
}

const least = (numbers: readonly number[]): number | null =>
  numbers.length === 0 ? null : Math.min(...numbers)

const parts = (value: string | string[] | undefined): string[] =>
  (typeof value === 'string' ? [value] : (value ?? [])).flatMap((one) => one.split(','))

/** A date has a comma of its own. */
const partsOfReset = (value: string | string[] | undefined): (string | undefined)[] =>
  typeof value === 'string' && /[a-z]{3},/i.test(value) ? [value] : parts(value)

const first = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' ? value : value?.[0]
