import ms from 'ms'

/** Longer than any interval that makes sense here, and far inside what a date can hold. */
const longestMs = 100 * 365 * 24 * 3_600_000

/**
 * A duration such as `30s`, `6h` or `90d` in milliseconds, or null. The unit must be there: `30` could be
 * anything, and `ms` itself would take it for milliseconds.
 */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim()
  if (!/^\d+(?:\.\d+)? ?[a-z]+$/i.test(trimmed)) return null
  // `ms` answers undefined to a unit that it doesn't know, whatever its type says.
  const parsed: number | undefined = ms(trimmed as `${number}d`)
  if (parsed === undefined || !Number.isFinite(parsed) || parsed > longestMs) return null
  return Math.round(parsed)
}

export const expectedDuration = "a duration with its unit, such as '30s', '15m', '6h' or '90d'"
