import { count, duration } from '../../domain/numbers.ts'

/** `200 calls in 2 s`. */
export function limitText(limit: number, windowMs: number | null): string {
  const calls = `${count(limit)} ${limit === 1 ? 'call' : 'calls'}`
  return windowMs === null ? `${calls} a window` : `${calls} in ${duration(windowMs)}`
}
