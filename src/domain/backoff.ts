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
  const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, attempts - 1))
  return Math.round(Math.max(retryAfterMs ?? 0, SHORTEST_MS + random * (ceiling - SHORTEST_MS)))
}

const SHORTEST_MS = 100
const FIRST_MS = 1_000
const LONGEST_MS = 5 * 60_000
