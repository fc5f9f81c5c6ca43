import type { Plan } from '../../domain/report/plan.ts'
import type { LeftOutSource } from '../../domain/report/run.ts'
import { formatLimit, type KnownLimit } from '../../domain/rate-status.ts'
import type { ConfiguredBudget, MixedBudget } from '../../domain/spend.ts'
import type { Source } from '../../sources/source-model.ts'
import { formatCount, formatDuration, formatMoney, pluralize } from '../../util/text.ts'
import type { RunSpec } from '../../domain/run.ts'
import type { FunnelOptions } from './funnel.ts'
import type { CountedService } from './walk.ts'

/** What decides by which calls lookups are requested. */
export interface PlannedCalls extends Pick<RunSpec, 'route'> {
  /** Deliveries arrive. */
  readonly usesWebhook: boolean
}

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
