/**
 * What a run may spend, in lookups, and what it had to leave for want of it. A lookup is charged when the run takes it,
 * not when it is asked, so that a run never holds a question that it can't pay, and a question tried three times is
 * charged once. What is spent is in Postgres (`store/budgets.ts`), charged in the transaction that takes.
 */
export class RunBudget {
  readonly limit: number | null
  #skipped = 0
  readonly #abandonedSkips = new Map<string, number>()
  readonly #pendingSkips = new Map<string, number>()
  readonly #rowsTakenBySource = new Map<string, number | null>()

  /** @param limit lookups; null is unlimited */
  constructor(limit: number | null) {
    this.limit = limit
  }

  /** Rows that were not picked because their lookup could not be paid. */
  get rowsSkipped(): number {
    return this.#skipped + sum(this.#abandonedSkips)
  }

  /** Rows of the run that wait because their next lookup can't be paid. */
  get rowsAwaitingBudget(): number {
    return sum(this.#pendingSkips)
  }

  /** Rows of a source that the run has taken. Null: to be counted, because the answer of a COMMIT was lost. */
  rowsTaken(source: string): number | null {
    return this.#rowsTakenBySource.get(source) ?? (this.#rowsTakenBySource.has(source) ? null : 0)
  }

  setRowsTaken(source: string, rows: number | null): void {
    this.#rowsTakenBySource.set(source, rows)
  }

  skip(rows: number): void {
    this.#skipped += rows
  }

  /** What a whole look at the rows that other runs left behind could not pay: it takes the place of the look before. */
  setAbandonedSkips(source: string, rows: number): void {
    this.#abandonedSkips.set(source, rows)
  }

  /** The same for the run's own rows that were to be picked again. */
  setPendingSkips(source: string, rows: number): void {
    this.#pendingSkips.set(source, rows)
  }
}

const sum = (rows: ReadonlyMap<string, number>): number =>
  [...rows.values()].reduce((total, one) => total + one, 0)
