/**
 * How long to wait before the next try: exponential with full jitter, so that many lookups that failed together
 * do not come back together. A `Retry-After` is a floor, never cut short by the jitter.
 *
 * @param attempts tries made so far, 1 or more
 * @param retryAfterMs what the service asked for, if it did
 * @param random 0 up to (not including) 1
 * @returns milliseconds
 */
export function backoffMs(attempts: number, retryAfterMs: number | null, random: number): number {
  const ceiling = Math.min(MAX_DELAY_MS, FIRST_CEILING_MS * 2 ** Math.max(0, attempts - 1))
  return Math.round(Math.max(retryAfterMs ?? 0, MIN_DELAY_MS + random * (ceiling - MIN_DELAY_MS)))
}

const MIN_DELAY_MS = 100
const FIRST_CEILING_MS = 1_000
const MAX_DELAY_MS = 5 * 60_000

/** The longest pause before the second, third, … try of a lookup. The last stands for all further ones. */
const RETRY_CEILINGS_MS = [1_000, 30_000, 5 * 60_000, 30 * 60_000]
/** The same for a lookup whose answer was lost after its call was sent: each of its tries may have to be paid for. */
const LOST_RETRY_CEILINGS_MS = [30_000, 30 * 60_000]

/**
 * How long a lookup waits for its next try: spread over half an hour, so that a single fault costs a second and an
 * outage does not use up the tries of a row. Doubling from a second was rejected: five tries were over in eight
 * seconds. Full jitter; a `Retry-After` is a floor.
 *
 * @param tries made so far, 1 or more
 * @returns milliseconds
 */
export function retryDelayMs(
  tries: number,
  {
    retryAfterMs,
    random,
    isLost = false,
  }: { readonly retryAfterMs: number | null; readonly random: number; readonly isLost?: boolean },
): number {
  const spread = isLost ? LOST_RETRY_CEILINGS_MS : RETRY_CEILINGS_MS
  const ceiling = spread[Math.min(Math.max(tries, 1), spread.length) - 1] ?? MIN_DELAY_MS
  return Math.round(Math.max(retryAfterMs ?? 0, MIN_DELAY_MS + random * (ceiling - MIN_DELAY_MS)))
}

/** A lookup whose next try is so far ahead is not waited for by a run. In milliseconds. */
export const MAX_AWAITED_DELAY_MS = 60_000

/** The pause before a key that the service refused is tried again. */
const KEY_PAUSES_MS = [60_000, 5 * 60_000, 15 * 60_000]

/** @param refusals in a row, 1 or more @returns milliseconds */
export const keyPauseMs = (refusals: number): number =>
  KEY_PAUSES_MS[Math.min(Math.max(refusals, 1), KEY_PAUSES_MS.length) - 1] ?? 0
