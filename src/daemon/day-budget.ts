import type { Deps } from '../pipeline/deps.ts'
import { resolveSourceBudgets, type SourceBudget } from '../domain/spend.ts'
import * as budgets from '../store/budgets.ts'

interface BudgetedSource {
  readonly mapping: { readonly name: string; readonly budget: SourceBudget | null }
}

/**
 * The budget of live sync for a day (UTC), and the parts of it that sources may use. What is spent is as of the last
 * `refresh`: the transaction that claims lookups has the last word.
 */
export class DayBudget {
  readonly #deps: Pick<Deps, 'db'>
  readonly #names: readonly string[]
  #spentSources: ReadonlySet<string> = new Set()
  /** Lookups that a run may spend. Null is unlimited. */
  readonly limit: number | null
  /** The most of it that a source may use, by source. */
  readonly sourceLimits: ReadonlyMap<string, number>

  /** @param limit lookups a day; null is unlimited */
  constructor(deps: Pick<Deps, 'db'>, sources: readonly BudgetedSource[], limit: number | null) {
    const mappings = sources.map(({ mapping }) => mapping)
    this.#deps = deps
    this.#names = mappings.map(({ name }) => name)
    this.limit = limit
    this.sourceLimits = resolveSourceBudgets(mappings, limit)
  }

  /**
   * Reads what is spent today. A budget that is used up is a condition, which is logged as one.
   * @returns the name of today's budget, which the runs of the day share; null: it is unlimited for every source
   */
  async refresh(): Promise<string | null> {
    const { limit, sourceLimits } = this
    if (limit === null && sourceLimits.size === 0) return null
    const { name, spent, bySource } = await budgets.readDayBudget(this.#deps.db)
    const isSpent = limit !== null && spent >= limit
    this.#spentSources = new Set(
      this.#names.filter((one) => {
        const sourceLimit = sourceLimits.get(one)
        return isSpent || (sourceLimit !== undefined && (bySource[one] ?? 0) >= sourceLimit)
      }),
    )
    return name
  }

  /** Those of some sources whose lookups can still be paid today. */
  filterPayable(sources: readonly string[]): string[] {
    return sources.filter((name) => !this.#spentSources.has(name))
  }
}
