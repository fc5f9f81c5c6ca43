/**
 * The halt after a 429. At least as long as Retry-After says, and at least twice as long as the last one where a
 * refusal follows a refusal: repeated excess may cause a ban.
 */
export class Halt {
  #until = Number.NEGATIVE_INFINITY
  #last = 0
  #refusals = 0

  get until(): number {
    return this.#until
  }

  get refusals(): number {
    return this.#refusals
  }

  isOn(now: number): boolean {
    return now < this.#until
  }

  /**
   * @param sentAt a call that was sent before the last halt was over belongs to the same refusal
   * @param renewedAt the moment at which the limit is renewed, where it is known
   * @returns whether it is a new refusal, and no other call of one that was answered before
   */
  refused(sentAt: number, now: number, retryAfterMs: number | null, renewedAt: number | null): boolean {
    const isSame = sentAt < this.#until
    this.#refusals++
    if (!isSame) this.#last = Math.min(longest, Math.max(shortest, this.#last * 2))
    const asked = retryAfterMs ?? (renewedAt === null ? 0 : Math.max(0, renewedAt - now))
    const wait = Math.max(this.#last, asked)
    if (!isSame) this.#last = wait
    this.#until = Math.max(this.#until, now + wait)
    return !isSame
  }

  /** Waits without a refusal. */
  wait(until: number): void {
    this.#until = Math.max(this.#until, until)
  }

  /** An answer that is no refusal, to a call that was sent after the halt. */
  accepted(sentAt: number): void {
    if (sentAt >= this.#until) this.#last = 0
  }
}

/** In milliseconds. A service that refuses and does not say for how long is left alone for a second. */
const shortest = 1000
const longest = 15 * 60_000
