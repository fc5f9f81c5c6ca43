import { Bounds } from './bounds.ts'
import type { Heard } from './calls.ts'
import type { History } from './history.ts'

/**
 * How long the window is, if it slides: each call is counted until it is one length old. An answer that says
 * "n are counted" says which of the earlier calls are the last n, and so how far the window reaches back. For
 * every other kind of service the bounds contradict each other sooner or later.
 */
export class SlidingLength {
  readonly bounds = new Bounds()
  readonly #history: History
  /** Calls that had ended when nothing was wanted last. */
  #restedAt = 0

  constructor(history: History) {
    this.#history = history
  }

  /** Nothing was wanted for a while: what was called before it bounds nothing. */
  rested(): void {
    this.#restedAt = this.#history.length
  }

  /** @param others calls that may be counted although they had not ended when this one was sent, or are not ours */
  learn({ call, receivedAt, used }: Heard, others: number): void {
    if (used === null || used < 1) return
    const before = call.endedBefore
    // At least so many of the calls that had ended are counted: the window reaches back to the first of these.
    const reached = used - 1 - others
    const isWithin = before - reached >= this.#restedAt
    const reachedAt = reached > 0 && isWithin ? this.#history.receivedAt(before - reached) : null
    if (reachedAt !== null) this.bounds.atLeast(call.sentAt - reachedAt)
    // Of this many, one is not counted any more.
    const from = this.#history.sinceCounted(used, before)
    if (from === null || from >= before || from < this.#restedAt) return
    const hopedFor = receivedAt - (this.#history.receivedAt(from) ?? receivedAt)
    if (hopedFor >= this.bounds.most) return
    const sentAt = this.#history.earliestSent(from, before)
    if (sentAt !== null) this.bounds.atMost(receivedAt - sentAt)
  }
}
