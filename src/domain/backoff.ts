/**
 * The delay before the next attempt: exponential with full jitter, so that lookups that failed together
 * do not retry together. A `Retry-After` is a lower bound.
 *
 * @param attempts attempts so far, 1 or more
 * @param retryAfterMs the service's Retry-After, if any
 * @param random 0 (inclusive) to 1 (exclusive)
 * @returns milliseconds
 */
export function backoffMs(attempts: number, retryAfterMs: number | null, random: number): number {
  const ceiling = Math.min(MAX_DELAY_MS, FIRST_CEILING_MS * 2 ** Math.max(0, attempts - 1))
  return Math.round(Math.max(retryAfterMs ?? 0, MIN_DELAY_MS + random * (ceiling - MIN_DELAY_MS)))
}

const MIN_DELAY_MS = 100
const FIRST_CEILING_MS = 1_000
const MAX_DELAY_MS = 5 * 60_000

/** Upper bounds of the delay before the second, third, … attempt of a lookup; the last applies to all further ones. */
const RETRY_CEILINGS_MS = [1_000, 30_000, 5 * 60_000, 30 * 60_000]
/** The same for a lookup whose response was lost after its call was sent: every attempt may be billed. */
const LOST_RETRY_CEILINGS_MS = [30_000, 30 * 60_000]

/**
 * The delay before the next attempt of a lookup: spread over half an hour, so that a single fault costs a second and an
 * outage does not use up the attempts of a row. Full jitter; a `Retry-After` is a lower bound.
 *
 * @param attempts attempts so far, 1 or more
 * @returns milliseconds
 */
export function retryDelayMs(
  attempts: number,
  {
    retryAfterMs,
    random,
    isLost = false,
  }: { readonly retryAfterMs: number | null; readonly random: number; readonly isLost?: boolean },
): number {
  const ceilings = isLost ? LOST_RETRY_CEILINGS_MS : RETRY_CEILINGS_MS
  const ceiling = ceilings[Math.min(Math.max(attempts, 1), ceilings.length) - 1] ?? MIN_DELAY_MS
  return Math.round(Math.max(retryAfterMs ?? 0, MIN_DELAY_MS + random * (ceiling - MIN_DELAY_MS)))
}

/** A run does not wait for a lookup whose next attempt is further away than this. */
export const MAX_AWAITED_DELAY_MS = 60_000
