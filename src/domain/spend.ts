import { formatCount, formatMoney, pluralize } from '../util/text.ts'
import type { Money, SpendAmount } from './report/shape.ts'
/** What lookups are requested through. A bulk call requests people; a poll fetches their results, and is not billed. */
export type BilledEndpoint = SingleEndpoint | 'bulk'

/** What single lookups are called through. Each may have a limit of its own. */
export const SINGLE_ENDPOINTS = ['person', 'company'] as const
export type SingleEndpoint = (typeof SINGLE_ENDPOINTS)[number]

/** The called endpoints of the service. */
export const CALLED_ENDPOINTS = [...SINGLE_ENDPOINTS, 'bulk', 'poll'] as const
export type CalledEndpoint = (typeof CALLED_ENDPOINTS)[number]

/** What was requested through an endpoint. Without `credits`, a lookup costs one; without `credits_in_doubt`, so do those in doubt. */
export interface SpendCounts extends Omit<SpendAmount, 'cost'> {
  /** Of `calls`, those that failed, to be repeated. */
  readonly retried: number
  /** Of `calls`, those answered 429. */
  readonly throttled: number
}

/** The maximum number of lookups of a run. */
export type LookupBudget = number | 'unlimited'

/** The price of a lookup by its kind, in units of the currency; the price of a credit where lookups cost credits. */
export interface Price {
  /** ISO 4217: `EUR`. */
  readonly currency: string
  readonly person: number
  readonly company: number
}

/** What a run may spend: lookups, or money. */
export type ConfiguredBudget = LookupBudget | Money

/**
 * A budget in lookups. Of one in money, as many as it pays for at the highest of the prices: never more than it, and less where
 * another lookup is cheaper.
 */
export function toLookupBudget(
  budget: ConfiguredBudget | null,
  prices: readonly (Price | null)[],
): LookupBudget | null {
  if (budget === null || typeof budget !== 'object') return budget
  const highest = Math.max(
    ...prices.flatMap((price) => (price === null ? [] : [price.person, price.company])),
  )
  // The sum is rounded as an amount is: 0.3 pays for three lookups at 0.1.
  return highest === 0 ? 'unlimited' : Math.floor(Math.round((budget.amount / highest) * 1e6) / 1e6)
}

/** A budget in money whose lookups have several prices. It is counted in lookups at the highest of them. */
export interface MixedBudget extends Money {
  readonly highest: number
}

/** In millionths: no price has more decimals. */
const toMillionths = (amount: number): bigint => BigInt(Math.round(amount * 1e6))

/** Such an amount in lookups at the highest price, rounded down to the decimals that sums of charges have. */
export const toUnits = (amount: number, { highest }: MixedBudget): number =>
  Number((toMillionths(amount) * 1_000_000n) / toMillionths(highest)) / 1e6

/** What a lookup takes of it: rounded up, so that the sum is never more than the budget. */
export function shareOfHighest(
  price: Price | null,
  { highest }: MixedBudget,
): Readonly<Record<SingleEndpoint, number>> | null {
  if (price === null) return null
  const share = (amount: number): number => {
    const most = toMillionths(highest)
    return Number((toMillionths(amount) * 1_000_000n + most - 1n) / most) / 1e6
  }
  return { person: share(price.person), company: share(price.company) }
}

/**
 * A sum of credits as it is in decimals: 0.1 + 0.2 is 0.3. Amounts have at most six of them, so that a rounded sum is exact, and
 * equal sums are equal numbers: nothing is 0, and never -0.
 */
export const roundCredits = (sum: number): number => (Math.round(sum * 1e6) + 0) / 1e6

/** Adds up what was requested. @param price null: unknown */
export function sumSpend(
  parts: readonly (SpendCounts & { readonly endpoint: BilledEndpoint })[],
  price: Price | null,
): SpendAmount {
  const total = { calls: 0, lookups: 0, in_doubt: 0 }
  const credited = { credits: 0, credits_in_doubt: 0 }
  let companies = 0
  let isFlat = true
  for (const part of parts) {
    const { credits = part.lookups, credits_in_doubt: doubt = part.in_doubt } = part
    for (const name of ['calls', 'lookups', 'in_doubt'] as const) total[name] += part[name]
    credited.credits = roundCredits(credited.credits + credits)
    credited.credits_in_doubt = roundCredits(credited.credits_in_doubt + doubt)
    if (part.endpoint === 'company') companies = roundCredits(companies + credits)
    if (credits !== part.lookups || doubt !== part.in_doubt) isFlat = false
  }
  const cost = costOf({ person: credited.credits - companies, company: companies }, price)
  return { ...total, ...(!isFlat && credited), cost }
}

/** What is billed, in what the service counts: `12 lookups`, or `12 credits`. */
export const billedUnits = (
  spend: Pick<SpendAmount, 'lookups' | 'in_doubt' | 'credits' | 'credits_in_doubt'>,
): { readonly count: number; readonly inDoubt: number; readonly noun: 'lookup' | 'credit' } =>
  spend.credits === undefined
    ? { count: spend.lookups, inDoubt: spend.in_doubt, noun: 'lookup' }
    : { count: spend.credits, inDoubt: spend.credits_in_doubt ?? 0, noun: 'credit' }

/** `1,234 lookups and 2 in doubt (12.34 EUR)`. */
export function formatSpend(spend: SpendAmount): string {
  const { count, inDoubt, noun } = billedUnits(spend)
  const doubt = inDoubt > 0 ? ` and ${formatCount(inDoubt)} in doubt` : ''
  return `${pluralize(count, noun)}${doubt}${spend.cost === null ? '' : ` (${formatMoney(spend.cost)})`}`
}

/** Whose budget it is, in words. */
export const BUDGET_NAMES = {
  run: 'run',
  schedule: 'scheduled run',
  live_sync: 'live sync today',
} as const

/** The sum of some costs; null if one is unknown, or the currencies differ. */
export function sumCosts(costs: readonly (Money | null)[]): Money | null {
  const [first = null] = costs
  if (first === null || costs.some((cost) => cost?.currency !== first.currency)) return null
  const amount = costs.reduce((sum, cost) => sum + (cost?.amount ?? 0), 0)
  return { amount: Math.round(amount * 1e6) / 1e6, currency: first.currency }
}

/** The cost of some lookups, or of their credits; null without a price. */
export function costOf(
  lookups: { readonly person: number; readonly company: number },
  price: Price | null,
): Money | null {
  if (price === null) return null
  const amount = lookups.person * price.person + lookups.company * price.company
  // Sums of binary fractions: 3 × 0.1 is not 0.3. No price has more than a millionth of its currency's unit.
  return { amount: Math.round(amount * 1e6) / 1e6, currency: price.currency }
}
