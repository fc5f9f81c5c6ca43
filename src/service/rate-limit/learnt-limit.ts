import type { OverstatedLimit } from '../../domain/rate-status.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'

/** At most this number of calls in any span of this length. */
export interface LearntLimit {
  readonly calls: number
  readonly windowMs: number
}

/** What came before a refusal, and the pause after it. */
export interface RefusedSpan {
  /** Calls accepted since the end of the pause before, and for how long until the refusal. */
  readonly accepted: number
  readonly busyMs: number
  /** From the refusal until a call was accepted, or could have been by what the service stated. */
  readonly pauseMs: number
  /** Calls accepted in this time up to the refusal. */
  readonly acceptedWithin: (ms: number) => number
}

/** The documented windows by their length, with the calls that were believed to be let through in one: as many, or more, were refused. */
export type Guesses = ReadonlyMap<number, number>

/** Of what was accepted within a window: a refusal after fewer calls came from a limit that was used up before the last pause. */
const WHOLE_WINDOW_SHARE = 0.45

/** A measured rate that is faster than that of the documented window by no more than this is that one: clocks and timers. */
const SAME_RATE = 0.97
/** The same after a measured rate was refused: it may be too fast by this. */
const REFUSED_RATE = 0.7

/** What is granted of a documented limit, if it is less than this share of it, is said. */
const OVERSTATED_BELOW = 0.9

/** The slower of both, in as few calls at once; one call less where what was measured does not explain the refusal. */
export function tighten(known: LearntLimit | null, measured: LearntLimit): LearntLimit {
  if (known === null) return measured
  const calls = Math.min(known.calls, measured.calls)
  const windowMs = calls * Math.max(known.windowMs / known.calls, measured.windowMs / measured.calls)
  const isTighter = calls < known.calls || windowMs > known.windowMs * (1 + 1 / known.calls)
  return isTighter ? { calls, windowMs } : { ...known, calls: Math.max(1, known.calls - 1) }
}

/** Up to the end of the pause, the least that is let through: no window that is shorter refuses it. */
export const spanLimit = ({ accepted, busyMs, pauseMs }: RefusedSpan): LearntLimit => ({
  calls: accepted,
  windowMs: Math.max(1, busyMs + pauseMs),
})

/**
 * The calls of a window of this length are gone before the pause ends: it is longer. Retry-After is rounded up by less than a
 * second, and pauses of our own double.
 */
const isOutlasted = (windowMs: number, { pauseMs }: RefusedSpan): boolean =>
  pauseMs > Math.max(windowMs + 950, windowMs * 1.25)

/**
 * What is known has a documented window, and a call was refused: its number was too high, and is what was accepted within it
 * up to the refusal. Null: the window was no such guess, or is wrong.
 */
export function correctGuess(
  known: LearntLimit | null,
  span: RefusedSpan,
  guesses: Guesses,
): LearntLimit | null {
  if (known === null || !guesses.has(known.windowMs) || isOutlasted(known.windowMs, span)) return null
  const lately = span.acceptedWithin(known.windowMs)
  return { calls: Math.max(1, Math.min(lately, known.calls - 1)), windowMs: known.windowMs }
}

/**
 * What was accepted within a documented window up to the refusal, if that is more than what was measured: the documented
 * length is most likely right, and the number too high. A pause is often longer than it had to be, and a bucket refuses calls
 * in spans that are no windows.
 * @param known what held when the call was refused
 * @returns what was measured, if no documented window explains it
 */
export function fitToDocumented(
  measured: LearntLimit,
  known: LearntLimit | null,
  span: RefusedSpan,
  guesses: Guesses,
): LearntLimit {
  const { accepted, acceptedWithin } = span
  for (const [windowMs, refused] of [...guesses].toSorted(([a], [b]) => a - b)) {
    const lately = acceptedWithin(windowMs)
    // A much shorter span let calls through several times within such a window.
    const hasHeld = known !== null && known.windowMs < windowMs / 2 && lately > 2 * known.calls
    if (isOutlasted(windowMs, span) || hasHeld) continue
    const calls = accepted >= lately * WHOLE_WINDOW_SHARE ? Math.min(accepted, lately) : lately
    const share = known === null ? SAME_RATE : REFUSED_RATE
    const isFaster = calls / windowMs >= (measured.calls / measured.windowMs) * share
    if (calls >= 1 && calls < refused && isFaster) return { calls, windowMs }
  }
  return measured
}

/** The documented limit that a learnt one is the truth of, if it is too high; null: none is. */
export function findOverstated(
  learnt: LearntLimit,
  documented: readonly DocumentedLimit[],
): OverstatedLimit | null {
  const distance = ({ windowMs }: DocumentedLimit): number => Math.abs(Math.log(windowMs / learnt.windowMs))
  const [stated] = documented.toSorted((a, b) => distance(a) - distance(b))
  if (stated === undefined) return null
  const granted = Math.max(1, Math.round((learnt.calls * stated.windowMs) / learnt.windowMs))
  return granted < stated.calls * OVERSTATED_BELOW ? { ...stated, granted } : null
}
