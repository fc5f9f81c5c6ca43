import { describeBeyondBudget, type Plan } from '../../actions/plan/report.ts'
import { formatLimit } from '../../domain/rate-status.ts'
import type { ConfiguredBudget } from '../../domain/spend.ts'
import { formatCount, formatDuration, formatMoney } from '../../util/format.ts'

export interface PlanSettings {
  /** From the command line or the configuration; null if neither sets it. */
  readonly budget: ConfiguredBudget | null
  /** Reasons for invalid inputs that are named, per source; the rarest are summed up. Default: 12. */
  readonly maxReasons?: number
}

/** `61.70 EUR`, `61.70 EUR to 70.00 EUR`; null without a price. */
export function formatAmounts({
  amount,
  max_amount: max,
}: Pick<Plan['cost'], 'amount' | 'max_amount'>): string | null {
  if (amount === null || max === null) return null
  return max.amount > amount.amount ? `${formatMoney(amount)} to ${formatMoney(max)}` : formatMoney(amount)
}

export const formatRange = ({ min, max }: { readonly min: number; readonly max: number }): string =>
  min === max ? formatCount(min) : `${formatCount(min)} to ${formatCount(max)}`

export function formatPlanBudget(plan: Plan, { budget }: PlanSettings): string {
  if (budget === null) return 'no budget is set: a run requires --budget'
  const beyond = describeBeyondBudget(plan)
  const { cost } = plan
  // What the run's budget would pay. Of a service that bills unlike prices, only the sum of credits tells.
  const isPaid =
    budget === 'unlimited' || (!cost.credits && cost.budget !== null && cost.lookups < cost.budget)
  if (beyond !== null && isPaid) return `${beyond} beyond the budgets of sources`
  if (budget === 'unlimited') return 'unlimited budget'
  const of = `the budget of ${typeof budget === 'number' ? formatCount(budget) : formatMoney(budget)}`
  return beyond === null ? `within ${of}` : `${beyond} beyond ${of}`
}

export function formatTimeEstimate({ limit, window_ms: windowMs, ms, max_ms: most }: Plan['time']): string {
  if (limit === null) return 'unknown until the first call returns the rate limit'
  const known = formatLimit(limit, windowMs)
  if (ms === null || most === null) return `the rate limit is ${known}`
  const about =
    most > ms
      ? `${formatDuration(ms)} to ${formatDuration(most)}`
      : ms === 0
        ? 'one window'
        : `about ${formatDuration(ms)}`
  return `${about}, at ${known}`
}
