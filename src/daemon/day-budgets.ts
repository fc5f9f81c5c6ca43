import type { Deps } from '../pipeline/deps.ts'
import { resolveSourceBudgets, type SourceBudget } from '../domain/spend.ts'
import * as budgets from '../store/budgets.ts'

/** What live sync picks: single edits (`follow`), or imports (`backfill`). */
export type LiveSyncKind = 'follow' | 'backfill'

export const LIVE_SYNC_KINDS: readonly LiveSyncKind[] = ['follow', 'backfill']

const STORED_KINDS = { follow: 'follow', backfill: 'import' } as const satisfies Record<LiveSyncKind, string>

interface BudgetedSource {
  readonly mapping: { readonly name: string; readonly budget: SourceBudget | null }
}

/**
 * The budgets of live sync, one a day (UTC) for single edits and one for imports, and the parts of them that sources may
 * use. Which are spent is as of the last `refresh`: the transaction that claims lookups has the last word.
 */
export class DayBudgets {
  readonly #deps: Pick<Deps, 'db'>
  readonly #limits: Readonly<Record<LiveSyncKind, number | null>>
  readonly #names: readonly string[]
  readonly #sourceLimits: Readonly<Record<LiveSyncKind, ReadonlyMap<string, number>>>
  readonly #spentSources: Record<LiveSyncKind, ReadonlySet<string>> = {
    follow: new Set(),
    backfill: new Set(),
  }

  /** @param limits lookups a day; null is unlimited */
  constructor(
    deps: Pick<Deps, 'db'>,
    sources: readonly BudgetedSource[],
    limits: Readonly<Record<LiveSyncKind, number | null>>,
  ) {
    const mappings = sources.map(({ mapping }) => mapping)
    this.#deps = deps
    this.#limits = limits
    this.#names = mappings.map(({ name }) => name)
    this.#sourceLimits = {
      follow: resolveSourceBudgets(mappings, limits.follow),
      backfill: resolveSourceBudgets(mappings, limits.backfill),
    }
  }

  /** What a run of this kind may spend. */
  limits(kind: LiveSyncKind): {
    readonly limit: number | null
    readonly sources: ReadonlyMap<string, number>
  } {
    return { limit: this.#limits[kind], sources: this.#sourceLimits[kind] }
  }

  /**
   * Reads what is spent today. A budget that is used up is a trouble, which is logged as one.
   * @returns the name of today's budget, which the runs of the day share; null: it is unlimited for every source
   */
  async refresh(kind: LiveSyncKind): Promise<string | null> {
    const limit = this.#limits[kind]
    const sourceLimits = this.#sourceLimits[kind]
    if (limit === null && sourceLimits.size === 0) return null
    const { name, spent, bySource } = await budgets.readDayBudget(this.#deps.db, STORED_KINDS[kind])
    const isSpent = limit !== null && spent >= limit
    this.#spentSources[kind] = new Set(
      this.#names.filter((one) => {
        const sourceLimit = sourceLimits.get(one)
        return isSpent || (sourceLimit !== undefined && (bySource[one] ?? 0) >= sourceLimit)
      }),
    )
    return name
  }

  /** Those of some sources whose lookups can still be paid today. */
  filterPayable(kind: LiveSyncKind, sources: readonly string[]): string[] {
    return sources.filter((name) => !this.#spentSources[kind].has(name))
  }
}
