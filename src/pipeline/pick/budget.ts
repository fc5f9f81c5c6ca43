/**
 * What a run may spend, in lookups, and what it left for lack of budget. A lookup is charged when the run claims
 * it, not when it is requested: a run never holds a lookup that it cannot pay, and retries are charged once. The
 * amount spent is in Postgres (`store/budgets.ts`), charged in the transaction that claims.
 */
export class RunBudget {
  readonly limit: number | null
  /** What may be spent until the current source's share ends; null: the whole budget. */
  #shareEnd: number | null = null
  #skipped = 0
  #isReached = false
  readonly #abandonedSkips = new Map<string, number>()
  readonly #pendingSkips = new Map<string, number>()
  readonly #rowsTakenBySource = new Map<string, number | null>()
  readonly #unreadSources = new Set<string>()

  /** @param limit lookups; null is unlimited */
  constructor(limit: number | null) {
    this.limit = limit
  }

  /** Lookups that may still be paid, within the current share. */
  remaining(spent: number): number {
    return Math.max(0, (this.#shareEnd ?? this.limit ?? Number.POSITIVE_INFINITY) - spent)
  }

  /**
   * Gives the next source its share: an even part of what is left, so that one large source does not use up the budget
   * of all. What a source does not need is left to those after it.
   * @param sources sources that have not had their share, including this one
   */
  startShare(spent: number, sources: number): void {
    if (this.limit !== null) this.#shareEnd = spent + Math.ceil((this.limit - spent) / sources)
  }

  /** What the shares left is open to every source. */
  endShares(): void {
    this.#shareEnd = null
  }

  get isShared(): boolean {
    return this.#shareEnd !== null
  }

  /** The budget could not pay a lookup. */
  get isReached(): boolean {
    return this.#isReached || this.rowsSkipped > 0 || this.rowsAwaitingBudget > 0
  }

  markReached(): void {
    this.#isReached = true
  }

  /** Rows read and not picked because the budget could not pay their lookup. */
  get rowsSkipped(): number {
    return this.#skipped + sum(this.#abandonedSkips)
  }

  /** Rows of the run that wait because the budget cannot pay their next lookup. */
  get rowsAwaitingBudget(): number {
    return sum(this.#pendingSkips)
  }

  /** Sources that were not read to the end, because the budget was used up. */
  get unreadSources(): readonly string[] {
    return [...this.#unreadSources].sort()
  }

  markUnread(source: string): void {
    this.#isReached = true
    this.#unreadSources.add(source)
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
