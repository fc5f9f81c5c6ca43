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
  /** The Reset that was told last; and the same, while no call can have taken the place that it promises. */
  #hint: { readonly reset: Reset; readonly receivedAt: number } | null = null
  #told: { readonly reset: Reset; readonly receivedAt: number } | null = null
  #floor = Number.NEGATIVE_INFINITY
  #triedAt = Number.NEGATIVE_INFINITY
  /** The furthest that a Reset lay ahead: about a window. */
  #longest = 0
  #surely = 0
  #patience = firstPatience

  constructor(offset: ClockOffset) {
    this.#offset = offset
  }

  /**
   * Answers come out of order: of calls that were on the wire together the later Reset counts. An older answer
   * that comes late would promise a place that a call has taken since.
   */
  learn(reset: Reset, sentAt: number, receivedAt: number): void {
    this.#patience = firstPatience
    this.#triedAt = receivedAt
    const last = this.#told
    this.#told = { reset, receivedAt }
    this.#hint = this.#told
    const until = this.#until(this.#told)
    this.#surely = Math.max(this.#surely, (this.knownFrom ?? receivedAt) - receivedAt)
    if (until !== null) this.#longest = Math.max(this.#longest, until - receivedAt)
    if (last === null || sentAt >= last.receivedAt) return
    this.#told = last
    if ((this.#until(last) ?? 0) < (until ?? 0)) this.#told = { reset, receivedAt }
    else this.#hint = last
  }

  /** A call ended whose answer told nothing: it may have taken the place that was promised. */
  learnNothing(now: number): void {
    this.#told = null
    this.#triedAt = now
  }

  /** Nothing was wanted for a while: what was tried in vain before it counts no more. */
  rested(): void {
    this.#patience = firstPatience
  }

  /** What was told until now was a thousand times too long. */
  wasInMs(): void {
    this.#longest = 0
    this.#surely = 0
    this.#hint = null
    this.#told = null
  }

  /** The latest moment at which the limit may be renewed, on our clock; null where nothing credible was told. */
  get knownUntil(): number | null {
    return this.#until(this.#hint)
  }

  /** The furthest that a Reset lay ahead, in milliseconds: about a window. */
  get longest(): number {
    return this.#longest
  }

  /** A window is no shorter, because a Reset lay so far ahead for certain, in milliseconds. */
  get surely(): number {
    return this.#surely
  }

  /** The earliest such moment. */
  get knownFrom(): number | null {
    if (this.#hint === null) return null
    const { reset, receivedAt } = this.#hint
    if (reset.kind === 'delay') return receivedAt + reset.ms - reset.precision
    return this.#offset.isKnown ? this.#offset.earliest(reset.at - reset.precision) : null
  }

  #until(told: { readonly reset: Reset; readonly receivedAt: number } | null): number | null {
    if (told === null) return null
    const { reset, receivedAt } = told
    if (reset.kind === 'delay') return receivedAt + reset.ms + reset.precision + margin
    const end = reset.at + reset.precision + margin
    if (this.#offset.isKnown) return this.#offset.latest(end)
    // Without a Date nothing bounds the service's clock: its Reset counts only where it is plausible on ours, and
    // then a clock is supposed that is kept right.
    const isPlausible = end > receivedAt - keptRight && end < receivedAt + longestWindow
    return isPlausible ? end + keptRight : null
  }

  /**
   * When calls are due although none is left, and whether Reset promises that; null where nothing tells.
   * @param least the window is no shorter, in milliseconds; null where it is known well enough for a reckoning,
   *   so that nothing need be tried that Reset does not promise
   */
  due(least: number | null): { readonly at: number; readonly isPromised: boolean } | null {
    const promised = this.#until(this.#told)
    if (promised !== null) return { at: Math.max(promised, this.#floor), isPromised: true }
    if (least === null) return null
    const silence = Math.max(this.#patience, this.#longest, least)
    return { at: Math.max(this.#floor, this.#triedAt + silence), isPromised: false }
  }

  /** A call is granted: the next is due after another Reset, or else after twice the time. */
  spend(now: number): void {
    this.#patience = Math.min(longestWindow, this.#patience * 2)
    this.#triedAt = now
    this.#told = null
  }

  notBefore(at: number): void {
    this.#floor = Math.max(this.#floor, at)
  }
}

/** In milliseconds. */
const margin = 2
const keptRight = 1000
const firstPatience = 1000
const longestWindow = 24 * 60 * 60_000
