import type { CallResult } from './call-ledger.ts'

/**
 * One way in which a service may count: a hypothesis. Answers narrow how long its window can be; where nothing is left
 * between the bounds, the service does not count in this way.
 */
export interface Counter {
  /** The window is no shorter, and no longer than `max`, in milliseconds. */
  readonly min: number
  readonly max: number
  readonly isPossible: boolean
  /** Of a call that the ledger has completed. @param others calls of other clients that may be counted as well */
  onAnswer(result: CallResult, limit: number, others: number): void
  /** Nothing was wanted for a while, until `now`: what was seen before says nothing about what comes after. */
  onIdle(now: number): void
  /** Calls answered up to then certainly hold no place any more; −∞ if that is not known of any. */
  cutoff(now: number): number
  /** When that moves by itself, and not with the time; null: it does not. */
  readonly endsAt: number | null
}

/** A length with its margin: two clocks drift apart by up to 0.01%, and a timer may fire a moment early. */
export const padded = (length: number): number => length + 2 + length / 10_000

/**
 * The length that was probably configured: the longest multiple of `step` within the bounds, because a window of
 * 1.037 s is not configured; the maximum if there is none.
 */
export function snapToRound(min: number, max: number, step: number): number {
  const multiple = Math.floor(max / step) * step
  return multiple > min && multiple > 0 ? multiple : max
}

const STEPS = [3_600_000, 600_000, 60_000, 30_000, 10_000, 5000, 1000, 500, 100]

/** The roundest length above `min` and up to `max`, the shorter of equals; null if only odd ones are left. */
export const roundestBetween = (min: number, max: number): number | null =>
  STEPS.map((step) => Math.floor(min / step) * step + step).find((length) => length <= max) ?? null

/** The same, the longer of equals. */
export const roundestBelow = (min: number, max: number): number | null =>
  STEPS.map((step) => Math.floor(max / step) * step).find((length) => length > min) ?? null
