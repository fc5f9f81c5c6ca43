import { parseHttpDate } from './retry-after.ts'

/**
 * When the limit is renewed: an instant on the service's clock (ms since the epoch), or a delay from the moment
 * of the answer. It may have been rounded either way by less than `precision` milliseconds.
 */
export type Reset =
  | { readonly kind: 'instant'; readonly at: number; readonly precision: number }
  | { readonly kind: 'delay'; readonly ms: number; readonly precision: number }

/** Below this a number is a delay in seconds, above it seconds since the epoch (2001 and later). */
const earliestEpochSeconds = 1e9

/**
 * Above these a number is milliseconds, microseconds and nanoseconds since the epoch (1973 and later), below the first
 * of them seconds (until 5138).
 */
const earliestEpochMilliseconds = 1e11
const earliestEpochMicroseconds = 1e14
const earliestEpochNanoseconds = 1e17

/** Read: epoch seconds and milliseconds, seconds from now, an ISO or HTTP date, and `6m0s` or `20ms`. */
export function readReset(text: string | undefined): Reset | null {
  if (text === undefined) return null
  const trimmed = text.trim()
  if (/^\d+(?:\.\d+)?$/.test(trimmed)) return readNumeric(trimmed)
  const at = readInstant(trimmed)
  if (at !== null) return { kind: 'instant', at, precision: precisionOf(at) }
  const ms = readDuration(trimmed)
  return ms === null ? null : { kind: 'delay', ms, precision: precisionOf(ms) }
}

/** A date of HTTP or of ISO 8601 in milliseconds since the epoch. */
export const readInstant = (text: string | undefined): number | null =>
  text === undefined ? null : parseHttpDate(text)

function readNumeric(text: string): Reset {
  const value = Number(text)
  if (value >= earliestEpochMilliseconds) {
    const perMs = value >= earliestEpochNanoseconds ? 1e6 : value >= earliestEpochMicroseconds ? 1e3 : 1
    const at = Math.round(value / perMs)
    return { kind: 'instant', at, precision: precisionOf(at) }
  }
  const ms = value * 1000
  const precision = text.includes('.') ? precisionOf(ms) : 1000
  return value >= earliestEpochSeconds
    ? { kind: 'instant', at: ms, precision }
    : { kind: 'delay', ms, precision }
}

/** Whole seconds may have been rounded to them, in whatever form they are written. */
const precisionOf = (ms: number): number =>
  ms % 1000 === 0 ? 1000 : ms % 100 === 0 ? 100 : ms % 10 === 0 ? 10 : 1

const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

function readDuration(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd])\s*)+$/.test(text)) return null
  let total = 0
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)) {
    total += Number(count) * (unitMs[unit ?? ''] ?? 0)
  }
  return total
}
