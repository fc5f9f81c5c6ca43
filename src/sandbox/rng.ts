import { setTimeout as wait } from 'node:timers/promises'

/**
 * Deterministic random numbers: they depend only on a seed and a text, not on the order of calls, the process or the
 * clock. A repeated run, in another order or in two processes at once, therefore meets the same records and faults.
 */

/** Milliseconds: one value, or an inclusive range from which each use draws. */
export type MsRange = number | readonly [number, number]

/** A list with at least one element, so that something can always be picked. */
export type NonEmptyList<T> = readonly [T, ...T[]]

export interface Rng {
  /** The next number in [0, 1). */
  next(): number
  /** True with the given probability. */
  below(share: number): boolean
  pick<T>(choices: NonEmptyList<T>): T
  /** A whole number, both ends included. */
  between(low: number, high: number): number
}

const STEP = 0x9e3779b9
const LANES = [0x01000193, 0x5bd1e995] as const

function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function hash(text: string, seed: number, multiplier: number): number {
  let bits = mix(seed + STEP)
  for (let at = 0; at < text.length; at += 1) bits = Math.imul(bits ^ text.charCodeAt(at), multiplier) + at
  return mix(bits ^ text.length)
}

/** 16 hex digits derived from seed and text (32 bits would collide at 100,000 identifiers). */
export function seededIdentifier(seed: number, text: string): string {
  return LANES.map((lane) => hash(text, seed, lane).toString(16).padStart(8, '0')).join('')
}

/** The random stream of a seed and a text. */
export function createRng(seed: number, text: string): Rng {
  let state = hash(text, seed, LANES[0])
  const next = () => {
    state = (state + STEP) | 0
    return mix(state) / 0x1_0000_0000
  }
  return {
    next,
    below: (share) => next() < share,
    pick: (choices) => choices[Math.floor(next() * choices.length)] ?? choices[0],
    between: (low, high) => low + Math.floor(next() * (high - low + 1)),
  }
}

/** Waits, but ends early without an error when the signal aborts; the caller checks the signal afterwards. */
export async function abortableDelay(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
