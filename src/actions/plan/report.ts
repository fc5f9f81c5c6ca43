import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { formatLimit, type KnownLimit } from '../../domain/rate-status.ts'
import type { ConfiguredBudget, MixedBudget, Money } from '../../domain/spend.ts'
import type { LeftOutSource } from '../../runs/source-health.ts'
import type { Source } from '../../sources/source-model.ts'
import { formatDuration, formatMoney, pluralize } from '../../util/format.ts'
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

export interface CountRange {
  readonly min: number
  readonly max: number
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
    /** What these cost, only where a lookup does not cost one credit: the least, and the most, which a run reserves. */
    readonly credits?: CountRange
    /** What these cost; null without a price. Of credits, the least and the most. */
    readonly amount: Money | null
    readonly max_amount: Money | null
    readonly budget: number | null
    /** Lookups beyond the budget, of the rows that the plan read. */
    readonly beyond_budget: number
  }
  readonly time: PlannedTime
  /**
   * Of several services, each in their order. The numbers above are then sums: of what is certain, and in `max_lookups`,
   * `max_amount` and `time.max_ms` of the most.
   */
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
  /** Of the certain lookups. */
  readonly calls: CallCounts
  readonly cost: {
    readonly amount: Money | null
    readonly max_amount: Money | null
    /** The most lookups, or credits, of a run for this service; null: no budget of its own. */
    readonly budget: number | null
  }
  /** Of the certain lookups, and of the most. All services work at the same time. */
  readonly time: PlannedTime
}

/**
 * The lookups that the budget leaves: of the rows that the plan read, which may have stopped at the
 * budget. Null: none.
 */
export function describeBeyondBudget({ cost, sources }: Pick<Plan, 'cost' | 'sources'>): string | null {
  if (cost.beyond_budget === 0) return null
  const atLeast = sources.some((source) => source.stopped_at === 'budget') ? 'at least ' : ''
  return `${atLeast}${pluralize(cost.beyond_budget, 'lookup')}`
}

/** `61.70 EUR`, `61.70 EUR to 70.00 EUR`; null without a price. */
export function formatAmounts({ amount, max_amount: max }: ServicePlan['cost']): string | null {
  if (amount === null || max === null) return null
  return max.amount > amount.amount ? `${formatMoney(amount)} to ${formatMoney(max)}` : formatMoney(amount)
}

/** Of the certain lookups, and of the most where they take longer; null if it is unknown. */
export const formatPlannedTime = ({ ms, max_ms: most }: Plan['time']): string | null =>
  ms === null || most === null
    ? null
    : most > ms
      ? `${formatDuration(ms)} to ${formatDuration(most)}`
      : formatDuration(ms)

/** How long the run takes, as far as it is known. */
export function formatPlanTime(
  time: Plan['time'],
  services: readonly ServicePlan[] = [],
): [text: string, note: string] {
  const { limit, window_ms: windowMs, ms, max_ms: most } = time
  const note = services.length > 0 ? 'all services work at the same time' : ''
  const unknown = services.filter((service) => service.time.ms === null).map(({ service }) => service)
  if (unknown.length > 0) return [`unknown for ${unknown.join(', ')}`, note]
  if (limit === null) return ['unknown until the first call returns the rate limit', note]
  const known = formatLimit(limit, windowMs)
  const text = most === 0 ? 'one window' : formatPlannedTime(time)
  if (text === null) return [`the rate limit is ${known}`, note]
  return [`${most === ms && most !== 0 ? 'about ' : ''}${text}, at ${known}`, note]
}
