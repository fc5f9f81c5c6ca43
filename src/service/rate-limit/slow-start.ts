/** After this many answers without a limit the service is taken to have none. */
const UNLIMITED_AFTER = 100

/**
 * While no limit is known: one call, then one more in flight with each answer, so that the number doubles with each
 * round trip. After a hundred answers without a limit there is none until a header states one. A 429 halves what was in
 * flight, and from there the number grows by one a round trip, because the next 429 is near.
 */
export class SlowStart {
  #allowed = 1
  #headerlessAnswers = 0
  #linearFrom = Number.POSITIVE_INFINITY
  #cap = Number.POSITIVE_INFINITY

  get isUnlimited(): boolean {
    return this.#headerlessAnswers >= UNLIMITED_AFTER && this.#linearFrom === Number.POSITIVE_INFINITY
  }

  /** How many calls may be in flight at once. */
  get allowed(): number {
    return this.isUnlimited ? Number.POSITIVE_INFINITY : Math.min(this.#cap, Math.floor(this.#allowed))
  }

  /** A limit was known recently, and part of it may be used: at most a quarter of it at once. */
  capAt(limit: number): void {
    this.#cap = Math.max(1, Math.floor(limit / 4))
  }

  /** An answer without a limit. */
  onAnswer(): void {
    this.#headerlessAnswers++
    this.#allowed += this.#allowed < this.#linearFrom ? 1 : 1 / this.#allowed
  }

  /** A 429 without a limit. */
  onRejected(inFlight: number): void {
    this.#linearFrom = Math.max(1, Math.floor(Math.min(this.#allowed, inFlight) / 2))
    this.#allowed = 1
  }
}
