/**
 * What a run may still spend, in lookups. A lookup is charged when the run takes it, not when it is asked, so that
 * a run never holds a question that it can't pay, and a question tried three times is charged once.
 */
export class Budget {
  readonly limit: number | null
  #spent = 0
  #refused = 0

  /** @param limit lookups; null is unlimited */
  constructor(limit: number | null) {
    this.limit = limit
  }

  get left(): number {
    return this.limit === null ? Number.POSITIVE_INFINITY : Math.max(0, this.limit - this.#spent)
  }

  get spent(): number {
    return this.#spent
  }

  /** Rows that were not picked because their lookup could not be paid. */
  get rowsLeftOut(): number {
    return this.#refused
  }

  spend(lookups: number): void {
    this.#spent += lookups
  }

  leaveOut(rows: number): void {
    this.#refused += rows
  }
}
