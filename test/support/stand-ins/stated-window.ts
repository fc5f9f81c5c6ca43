import type { StandIn, StatedWindow } from '../described-service.ts'

/** A window that begins with the clock, and what the headers of an answer say of it. */
export function createWindow(
  limit: number,
  ms: number,
): {
  readonly window: StatedWindow
  stateOf(calls: StandIn['calls']): {
    readonly limit: number
    readonly left: number
    readonly resetSeconds: number
  }
} {
  const spanOf = (at: number): number => Math.floor(at / ms)
  return {
    window: { calls: limit, ms, form: 'fixed' },
    stateOf: (calls) => {
      const now = performance.now()
      const used = calls.filter(({ at, fate }) => fate !== 'refused' && spanOf(at) === spanOf(now)).length
      const endsInMs = (spanOf(now) + 1) * ms - now
      return { limit, left: Math.max(0, limit - used), resetSeconds: Math.ceil(endsInMs / 1_000) }
    },
  }
}
