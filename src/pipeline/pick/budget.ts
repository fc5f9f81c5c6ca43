/**
 * What a run may spend, in lookups, and what it had to leave for want of it. A lookup is charged when the run takes it,
 * not when it is asked, so that a run never holds a question that it can't pay, and a question tried three times is
 * charged once. What is spent is in Postgres (`store/budgets.ts`), charged in the transaction that takes.
 */
export class Budget {
  readonly limit: number | null
  #leftOut = 0
  readonly #leftBehind = new Map<string, number>()
  readonly #unpaid = new Map<string, number>()
  readonly #taken = new Map<string, number | null>()

  /** @param limit lookups; null is unlimited */
  constructor(limit: number | null) {
    this.limit = limit
  }

  /** Rows that were not picked because their lookup could not be paid. */
  get rowsLeftOut(): number {
    return this.#leftOut + sum(this.#leftBehind)
  }

  /** Rows of the run that wait because their next lookup can't be paid. */
  get rowsUnpaid(): number {
    return sum(this.#unpaid)
  }

  /** Rows of a source that the run has taken. Null: to be counted, because the answer of a COMMIT was lost. */
  rowsTaken(source: string): number | null {
    return this.#taken.get(source) ?? (this.#taken.has(source) ? null : 0)
  }

  setRowsTaken(source: string, rows: number | null): void {
    this.#taken.set(source, rows)
  }

  leaveOut(rows: number): void {
    this.#leftOut += rows
  }

  /** What a whole look at the rows that other runs left behind could not pay: it takes the place of the look before. */
  leaveBehind(source: string, rows: number): void {
    this.#leftBehind.set(source, rows)
  }

  /** The same for the run's own rows that were to be picked again. */
  leaveWaiting(source: string, rows: number): void {
    this.#unpaid.set(source, rows)
  }
}

const sum = (rows: ReadonlyMap<string, number>): number =>
  [...rows.values()].reduce((total, one) => total + one, 0)
