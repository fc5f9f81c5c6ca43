/**
 * What a run may spend, in lookups, and what it skipped for lack of budget. A lookup is charged when the run claims
 * it, not when it is requested: a run never holds a lookup that it cannot pay, and retries are charged once. The
 * amount spent is in Postgres (`store/budgets.ts`), charged in the transaction that claims.
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

  /** Rows not picked because the budget could not pay their lookup. */
  get rowsSkipped(): number {
    return this.#skipped + sum(this.#abandonedSkips)
  }

  /** Rows of the run that wait because the budget cannot pay their next lookup. */
  get rowsAwaitingBudget(): number {
    return sum(this.#pendingSkips)
  }

  /** Rows of a source that the run has taken. Null: must be counted, because the result of a COMMIT is unknown. */
  rowsTaken(source: string): number | null {
    return this.#rowsTakenBySource.get(source) ?? (this.#rowsTakenBySource.has(source) ? null : 0)
  }

  setRowsTaken(source: string, rows: number | null): void {
    this.#rowsTakenBySource.set(source, rows)
  }

  skip(rows: number): void {
    this.#skipped += rows
  }

  /** Replaces the number of abandoned rows that a complete pass over them could not pay. */
  setAbandonedSkips(source: string, rows: number): void {
    this.#abandonedSkips.set(source, rows)
  }

  /** The same for the run's own requeued rows. */
  setPendingSkips(source: string, rows: number): void {
    this.#pendingSkips.set(source, rows)
  }
}

const sum = (rows: ReadonlyMap<string, number>): number =>
  [...rows.values()].reduce((total, one) => total + one, 0)
