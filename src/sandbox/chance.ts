/**
 * Chance that is the same every time: numbers that follow from a seed and a text alone, never from the
 * order of calls, the process or the clock. A run that is repeated, in another order or by two processes at
 * once, so meets the same records and the same faults.
 */

/** Milliseconds: one value, or the two ends of a range (both included) from which each use draws. */
export type Range = number | readonly [number, number]

/** A list that has at least one element, so that something can always be picked from it. */
export type Choices<T> = readonly [T, ...T[]]

export interface Chance {
  /** The next number, 0 included, 1 not. */
  next(): number
  /** True for the given share of all draws. */
  below(share: number): boolean
  pick<T>(choices: Choices<T>): T
  /** A whole number, both ends included. */
  between(low: number, high: number): number
}

const step = 0x9e3779b9
const lanes = [0x01000193, 0x5bd1e995] as const

function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function hash(text: string, seed: number, multiplier: number): number {
  let bits = mix(seed + step)
  for (let at = 0; at < text.length; at += 1) bits = Math.imul(bits ^ text.charCodeAt(at), multiplier) + at
  return mix(bits ^ text.length)
}

/** 16 hex digits that follow from the seed and the text: an identifier (32 bits would collide at 100,000). */
export function identifier(seed: number, text: string): string {
  return lanes.map((lane) => hash(text, seed, lane).toString(16).padStart(8, '0')).join('')
}

/** The stream of numbers that belongs to a seed and a text. */
export function chance(seed: number, text: string): Chance {
  let state = hash(text, seed, lanes[0])
  const next = () => {
    state = (state + step) | 0
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
export function drawFrom(range: Range, seed: number, text: string): number {
  if (typeof range === 'number') return range
  return range[0] === range[1] ? range[0] : chance(seed, text).between(range[0], range[1])
}
