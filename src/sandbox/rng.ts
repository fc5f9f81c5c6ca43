import { setTimeout as wait } from 'node:timers/promises'

/**
 * Chance that is the same every time: numbers that follow from a seed and a text alone, never from the
 * order of calls, the process or the clock. A run that is repeated, in another order or by two processes at
 * once, so meets the same records and the same faults.
 */

/** Milliseconds: one value, or the two ends of a range (both included) from which each use draws. */
export type MsRange = number | readonly [number, number]

/** A list that has at least one element, so that something can always be picked from it. */
export type NonEmptyList<T> = readonly [T, ...T[]]

export interface Rng {
  /** The next number, 0 included, 1 not. */
  next(): number
  /** True for the given share of all draws. */
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

/** 16 hex digits that follow from the seed and the text: an identifier (32 bits would collide at 100,000). */
export function seededIdentifier(seed: number, text: string): string {
  return LANES.map((lane) => hash(text, seed, lane).toString(16).padStart(8, '0')).join('')
}

/** The stream of numbers that belongs to a seed and a text. */
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

/** One draw from a range of milliseconds. */
export function drawMs(range: MsRange, seed: number, text: string): number {
  if (typeof range === 'number') return range
  return range[0] === range[1] ? range[0] : createRng(seed, text).between(range[0], range[1])
}

/** Waits; ends early, without an error, when the signal is aborted, so the caller looks at the signal after. */
export async function abortableDelay(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
