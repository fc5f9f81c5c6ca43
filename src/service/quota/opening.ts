/**
 * The slow start while no limit is known: one call, then one more on the wire with each answer, so that the
 * number doubles with each round trip. A service that says nothing about a limit for a hundred answers has none
 * that it tells, and is called without one until it does. A refusal halves what was open when it came, and from
 * there it opens by one a round trip, because the next refusal is near.
 */
export class Opening {
  #open = 1
  #silent = 0
  #gentleFrom = Number.POSITIVE_INFINITY
  #most = Number.POSITIVE_INFINITY

  get isUnlimited(): boolean {
    return this.#silent >= silentAnswers && this.#gentleFrom === Number.POSITIVE_INFINITY
  }

  /** How many calls may be on the wire at once. */
  get open(): number {
    return this.isUnlimited ? Number.POSITIVE_INFINITY : Math.min(this.#most, Math.floor(this.#open))
  }

  /** A limit was known lately, and some of it may be spent: it opens by no more than a quarter of that. */
  careful(limit: number): void {
    this.#most = Math.max(1, Math.floor(limit / 4))
  }

  /** An answer without a word about a limit. */
  answered(): void {
    this.#silent++
    this.#open += this.#open < this.#gentleFrom ? 1 : 1 / this.#open
  }

  /** A refusal without a word about a limit. */
  refused(onTheWire: number): void {
    this.#gentleFrom = Math.max(1, Math.floor(Math.min(this.#open, onTheWire) / 2))
    this.#open = 1
  }
}

const silentAnswers = 100
