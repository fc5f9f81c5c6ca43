import { readInstant, readReset } from './rate-reset.ts'
import type { Reset } from './rate-reset.ts'

/** What one answer says about the rate limit. Null: not said, or not in a form that can be believed. */
export interface RateHeaders {
  /** Calls a window. */
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

const NOTHING = { limit: null, remaining: null, reset: null } as const

/**
 * Reads the rate limit off an answer: `X-RateLimit-*`, `RateLimit-*` (draft-ietf-httpapi-ratelimit-headers, 03
 * to 10, also the one header `RateLimit` of 07 and later) and `X-Rate-Limit-*`. Of several limits in one header
 * the tightest counts. What is no number (`unlimited`, a map by minute and day) is left out, as if not sent.
 */
export function readRateHeaders(headers: Headers): RateHeaders {
  const found = families.map((family) => readFamily(headers, family)).find(saysSomething) ?? NOTHING
  const single = saysSomething(found) ? null : readSingle(headers['ratelimit'])
  const policy = readPolicy(headers['ratelimit-policy'] ?? headers['ratelimit-limit'])
  return {
    limit: found.limit ?? single?.limit ?? policy?.limit ?? null,
    remaining: found.remaining ?? single?.remaining ?? null,
    reset: found.reset ?? single?.reset ?? null,
    windowMs: policy?.windowMs ?? null,
    date: readInstant(first(headers['date'])),
  }
}

type Family = Pick<RateHeaders, 'limit' | 'remaining' | 'reset'>

const saysSomething = (family: Family): boolean =>
  family.limit !== null || family.remaining !== null || family.reset !== null

function readFamily(headers: Headers, [limit, remaining, reset]: readonly [string, string, string]): Family {
  return {
    limit: atLeast(1, readCount(headers[limit])),
    remaining: atLeast(0, readCount(headers[remaining])),
    reset: readReset(first(headers[reset])),
  }
}

/** `limit=100, remaining=50, reset=5` (draft 07) and `"default";r=50;t=5` (draft 08 and later). */
function readSingle(value: string | string[] | undefined): Family | null {
  const text = first(value)
  if (text === undefined) return null
  const remaining = parameter(text, 'remaining') ?? parameter(text, 'r')
  const delay = parameter(text, 'reset') ?? parameter(text, 't')
  return {
    limit: atLeast(1, parameter(text, 'limit')),
    remaining,
    reset: delay === null ? null : { kind: 'delay', ms: delay * 1000, precision: 1000 },
  }
}

/** `100;w=60` and `"default";q=100;w=60`; of several policies the one with the longest window. */
function readPolicy(value: string | string[] | undefined): { limit: number | null; windowMs: number } | null {
  const policies = parts(value).flatMap((part) => {
    const seconds = parameter(part, 'w')
    if (seconds === null || seconds <= 0) return []
    const limit = parameter(part, 'q') ?? readNumber(part.split(';')[0])
    return [{ limit: atLeast(1, limit), windowMs: seconds * 1000 }]
  })
  return policies.sort((a, b) => b.windowMs - a.windowMs)[0] ?? null
}

function parameter(text: string, name: string): number | null {
  const match = new RegExp(`(?:^|[;,\\s])${name}\\s*=\\s*"?(\\d+(?:\\.\\d+)?)`).exec(text)
  return match === null ? null : Number(match[1])
}

/** The smallest of the numbers in a header, which a proxy may have joined with commas. */
function readCount(value: string | string[] | undefined): number | null {
  if (value === undefined) return null
  if (typeof value === 'string' && /^\d+$/.test(value)) return Number(value)
  const numbers = parts(value).map((part) => readNumber(part.split(';')[0]))
  if (numbers.length === 0 || numbers.includes(null)) return null
  return Math.min(...numbers.filter((number) => number !== null))
}

/** A whole number, also written `-1` (a count below nothing) or `50.0`. */
function readNumber(text: string | undefined): number | null {
  if (text === undefined || !/^\s*-?\d+(?:\.\d+)?\s*$/.test(text)) return null
  return Math.max(0, Math.floor(Number(text)))
}

const atLeast = (least: number, value: number | null): number | null =>
  value === null || value < least ? null : value

const parts = (value: string | string[] | undefined): string[] =>
  (typeof value === 'string' ? [value] : (value ?? [])).flatMap((one) => one.split(','))

const first = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' ? value : value?.[0]
