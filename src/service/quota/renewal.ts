import type { Reset } from '../rate-reset.ts'
import type { ClockOffset } from './clock-offset.ts'

/**
 * When the limit has been renewed for certain, by what Reset says: it may have been rounded down by nearly a
 * second, and the service's clock is known within bounds only, so this is late by up to two seconds and never
 * early. Then one call is allowed although Remaining said none: at Reset a fixed window is over, the oldest call
 * has left a sliding window, and a bucket has a token; so one call cannot be refused, and its answer tells more.
 */
export class Renewal {
  readonly #offset: ClockOffset
  #reset: { readonly reset: Reset; readonly receivedAt: number } | null = null
  #floor = Number.NEGATIVE_INFINITY
  #patience = firstPatience

  constructor(offset: ClockOffset) {
    this.#offset = offset
  }

  learn(reset: Reset, receivedAt: number): void {
    this.#reset = { reset, receivedAt }
    this.#patience = firstPatience
  }

  /** On our clock; null where no Reset was told, or where it cannot be held against our clock. */
  get knownUntil(): number | null {
    if (this.#reset === null) return null
    const { reset, receivedAt } = this.#reset
    if (reset.kind === 'delay') return receivedAt + reset.ms + reset.precision + margin
    const end = reset.at + reset.precision + margin
    if (this.#offset.isKnown) return this.#offset.latest(end)
    // Without a Date nothing bounds the service's clock: its Reset counts only where it is plausible on ours.
    const isPlausible = end > receivedAt && end < receivedAt + longestWindow
    return isPlausible ? end : null
  }

  /** The earliest moment at which the limit may be renewed, on our clock. */
  get knownFrom(): number | null {
    if (this.#reset === null) return null
    const { reset, receivedAt } = this.#reset
    if (reset.kind === 'delay') return receivedAt + reset.ms - reset.precision
    return this.#offset.isKnown ? this.#offset.earliest(reset.at - reset.precision) : null
  }

  get dueAt(): number {
    return Math.max(this.knownUntil ?? Number.NEGATIVE_INFINITY, this.#floor)
  }

  isDue(now: number): boolean {
    if (this.dueAt === Number.NEGATIVE_INFINITY) this.#floor = now + this.#patience
    return now >= this.dueAt
  }

  /** The one call is granted: the next is due after another Reset, or else after twice the time. */
  spend(now: number): void {
    this.#patience = Math.min(longestWindow, this.#patience * 2)
    this.#floor = now + this.#patience
    this.#reset = null
  }

  postpone(now: number): void {
    this.#floor = Math.max(this.#floor, now + firstPatience)
  }

  notBefore(at: number): void {
    this.#floor = Math.max(this.#floor, at)
  }
}

/** In milliseconds. */
const margin = 2
const firstPatience = 1000
const longestWindow = 24 * 60 * 60_000
