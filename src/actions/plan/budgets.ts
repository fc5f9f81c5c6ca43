import { ALL_LOOKUP_KINDS } from '../../domain/identifiers/kind.ts'
import { byKind } from '../../domain/service/service.ts'
import { roundCredits } from '../../domain/spend.ts'
import { sumCredits, sumOf, type KindCounts } from './lookup-estimate.ts'

/** A service's own budget, and what a lookup takes of all budgets, at most and at least. */
export interface Account {
  readonly budget: number
  readonly most: KindCounts
  readonly least: KindCounts
}

/** What a source wants of one of its services. */
export interface WantedStep {
  readonly account: Account
  /** Lookups of rows that come to the service whatever the services before it answer. */
  readonly certain: KindCounts
  /** Further lookups, if every row goes on to the end. */
  readonly more: number
}

/** What budgets pay of the lookups of a service. */
export interface PaidLookups {
  readonly certain: KindCounts
  /** The most, with the certain ones. */
  readonly max: number
}

/** A step with the lookups that budgets pay. */
interface Step {
  readonly account: Account
  readonly certain: Record<keyof KindCounts, number>
  most: number
}

/**
 * Bounds wanted lookups by the budgets of their services, and by the budget of all together.
 * Of a budget that does not pay all certain lookups, it takes the fewest that use it up, which are the dearest.
 * @returns what each service may be requested with, and the most lookups of all services together
 */
export function payWanted(
  wanted: readonly WantedStep[],
  accounts: readonly Account[],
  total: number,
): { readonly paid: readonly PaidLookups[]; readonly max: number } {
  const steps = wanted.map(({ account, certain, more }): Step => ({
    account,
    certain: { ...certain },
    most: sumOf(certain) + more,
  }))
  const ofService = (account: Account): Step[] => steps.filter((step) => step.account === account)
  const ofServices = accounts.map((account) => payFrom(account.budget, ofService(account)))
  const ofAll = payFrom(total, steps)
  const paid = accounts.map((account, n) => {
    const own = ofService(account)
    const certain = byKind((kind) => sum(own.map((step) => step.certain[kind])))
    return { certain, max: Math.min(ofAll, ofServices[n] ?? 0, sum(own.map(({ most }) => most))) }
  })
  return { paid, max: Math.min(ofAll, sum(paid.map(({ max }) => max))) }
}

/** Bounds the lookups that a budget pays. @returns the most of them together */
function payFrom(budget: number, steps: readonly Step[]): number {
  const countCertain = (): number => sum(steps.map(({ certain }) => sumOf(certain)))
  const wanted = countCertain()
  const cells = steps.flatMap((step) =>
    ALL_LOOKUP_KINDS.map((kind) => ({ ...step, kind, each: step.account.most[kind] })),
  )
  let left = budget
  for (const { certain, kind, each } of cells.toSorted((a, b) => b.each - a.each)) {
    // What costs nothing is always paid.
    if (each > 0) certain[kind] = Math.min(certain[kind], roundDown(left / each))
    left = roundCredits(left - certain[kind] * each)
  }
  // Lookups that are not certain, and cost the least, may take what the certain ones leave. A budget that
  // does not pay all certain ones may be used for any lookups.
  const isEnough = countCertain() === wanted
  const paid = sum(steps.map(({ certain, account }) => sumCredits(certain, account.least).all))
  const open = roundCredits(isEnough ? budget - paid : budget)
  const countMost = (some: number, each: number): number =>
    (isEnough ? some : 0) + (open === Infinity || each === 0 ? Infinity : roundDown(open / each))
  const cheapest = ({ account }: Step): number => Math.min(...Object.values(account.least))
  for (const step of steps) step.most = Math.min(step.most, countMost(sumOf(step.certain), cheapest(step)))
  return Math.min(
    sum(steps.map(({ most }) => most)),
    countMost(countCertain(), Math.min(...steps.map(cheapest))),
  )
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)

/** A quotient of decimals: 3 / 0.1 is 30. */
const roundDown = (quotient: number): number => Math.floor(roundCredits(quotient))
