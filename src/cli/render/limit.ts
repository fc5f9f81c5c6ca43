import { formatCount, formatDuration } from '../../util/format.ts'

/**
 * `200 calls in 2 s`, or `200 calls in at most 7 min`.
 * @param atMostMs a bound of the window, where it is not known: null where there is none
 */
export function limitText(
  limit: number,
  windowMs: number | null,
  atMostMs: number | null | undefined = null,
): string {
  const calls = `${formatCount(limit)} ${limit === 1 ? 'call' : 'calls'}`
  if (windowMs !== null) return `${calls} in ${formatDuration(windowMs)}`
  return atMostMs == null ? `${calls} a window` : `${calls} in at most ${formatDuration(atMostMs)}`
}
