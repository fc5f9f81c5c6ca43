/** The longest wait that is believed: a day. What is longer is an error or a ban, and is looked at again. */
const longest = 24 * 60 * 60 * 1000

/** IMF-fixdate, RFC 850 and asctime, the three date forms of RFC 9110 section 5.6.7. */
const httpDate = /^[A-Z][a-z]{2,8},? [0-9A-Za-z:, -]{15,30}$/

const isoDate = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})$/

/**
 * Reads a Retry-After header (RFC 9110 section 10.2.3): how many milliseconds to wait from `now` (ms since
 * the epoch). Seconds, also decimal, or a date; of several headers the longest wait. What lies in the past is
 * 0, more than 24 hours is 24 hours, and what cannot be read is null. Give the time of the answer's `Date`
 * header as `now` where there is one, because a date is told by the server's clock.
 */
export function parseRetryAfter(value: string | string[] | undefined, now: number): number | null {
  if (value === undefined) return null
  if (typeof value === 'string') return parseOne(value.trim(), now)
  let longestWait: number | null = null
  for (const one of value) {
    const wait = parseOne(one.trim(), now)
    if (wait !== null) longestWait = Math.max(wait, longestWait ?? 0)
  }
  return longestWait
}

function parseOne(text: string, now: number): number | null {
  if (/^[+-]?\d+(?:\.\d+)?$/.test(text)) return bounded(Math.ceil(Number(text) * 1000))
  const date = parseHttpDate(text)
  return date === null ? null : bounded(date - now)
}

const bounded = (wait: number): number => Math.min(Math.max(0, wait), longest)

/** A date of HTTP or of ISO 8601, as ms since the epoch; null for everything else that Date.parse would guess. */
export function parseHttpDate(text: string): number | null {
  if (!httpDate.test(text) && !isoDate.test(text)) return null
  // The asctime form names no zone and means GMT; Date.parse would take it for local time.
  const time = Date.parse(/(?:GMT|UTC|Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text} GMT`)
  return Number.isNaN(time) ? null : time
}
