import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { formatLimit, type KnownLimit } from '../../domain/rate-status.ts'
import type { ConfiguredBudget, MixedBudget, Money } from '../../domain/spend.ts'
import type { LeftOutSource } from '../../runs/source-health.ts'
import type { Source } from '../../sources/source-model.ts'
import { formatCount, formatDuration, formatMoney, pluralize } from '../../util/text.ts'
import type { CallCounts, PlannedCalls, PlannedTime } from './calls.ts'
import type { FunnelOptions, SourcePlan } from './funnel.ts'
import type { CountedService } from './walk.ts'

/** A service, with what its plan depends on. */
export interface PlannedService extends Pick<CountedService, 'deps'>, Omit<PlannedCalls, 'route'> {
  /** Null: the configuration has one, which needs none. */
  readonly name: string | null
  /** Each at its step there. */
  readonly sources: readonly Source[]
  /** Sources that are left out because they are broken. */
  readonly leftOut: readonly LeftOutSource[]
  /** Of its own, beside that of the run. */
  readonly budget: ConfiguredBudget | null
  readonly knownLimit: KnownLimit | null
}

export interface PlanOptions extends FunnelOptions, Pick<PlannedCalls, 'route'> {
  /** The budget in money, if its lookups have several prices. */
  readonly mixed: MixedBudget | null
}

/**
 * What a run would request and cost.
 * @example
 * const { calls, cost, time } = await fillrate.plan()
 */
export interface Plan {
  readonly sources: readonly SourcePlan[]
  /** Sources that a run would skip because they are paused. */
  readonly paused: readonly string[]
  /** Sources that do not fit their tables: a run leaves them out. */
  readonly left_out: readonly LeftOutSource[]
  readonly lookups: {
    /** Distinct lookups of all sources together. */
    readonly distinct: number
    /** Already answered and fresh, or requested by another run now: free. */
    readonly stored: number
    readonly to_request: Readonly<Record<LookupKind, number>>
    readonly requested: number
    /** There are more than fit into memory: the numbers are estimates, within half a percent. */
    readonly is_estimate: boolean
  }
  readonly calls: CallCounts
  readonly cost: {
    /** Lookups that would be requested within the budget, at least. */
    readonly lookups: number
    /** At most: every row reaches its last identifier and service. */
    readonly max_lookups: number
    /** What these cost at most, only where a lookup does not cost one credit. */
    readonly max_credits?: number
    /** The same in money; null without a price. */
    readonly max_amount: Money | null
    readonly budget: number | null
    /** Lookups beyond the budget, of the rows that the plan read. */
    readonly beyond_budget: number
  }
  readonly time: PlannedTime
  /** Of several services, each in their order. The numbers above are then sums. */
  readonly services?: readonly ServicePlan[]
}

/** What one of several services would be requested with, and what that costs, within the budget. */
export interface ServicePlan {
  readonly service: string
  /** That it would be requested with. */
  readonly lookups: {
    /** Of rows that come to it whatever the services before it answer. */
    readonly certain: number
    /** If every row goes on to the last service. */
    readonly max: number
  }
  /** What `lookups.max` cost; null without a price. */
  readonly max_amount: Money | null
}

/** The lookups that budgets leave; null: none. */
export const describeBeyondBudget = ({ beyond_budget: lookups }: Plan['cost']): string | null =>
  lookups === 0 ? null : pluralize(lookups, 'lookup')

/** `2,000 to 2,900 lookups, at most 61.70 EUR`. */
export function describeCost({ lookups, max_lookups: most, ...cost }: Plan['cost']): string {
  const counted = most > lookups ? `${formatCount(lookups)} to ${formatCount(most)}` : formatCount(lookups)
  const money = cost.max_amount && formatMoney(cost.max_amount)
  const credits = cost.max_credits === undefined ? null : pluralize(cost.max_credits, 'credit')
  const bounds = [credits, money].filter((bound) => bound !== null)
  return `${counted} ${most === 1 ? 'lookup' : 'lookups'}${bounds.length === 0 ? '' : `, at most ${bounds.join(', ')}`}`
}

/** How long the run takes, as far as it is known. All services work at the same time. */
export function formatPlanTime({ limit, window_ms: windowMs, ms, max_ms: most }: Plan['time']): string {
  if (limit === null || ms === null || most === null)
    return 'unknown until the first call returns the rate limit'
  const about =
    most === ms ? `about ${formatDuration(ms)}` : `${formatDuration(ms)} to ${formatDuration(most)}`
  return `${most === 0 ? 'one window' : about}, at ${formatLimit(limit, windowMs)}`
}
