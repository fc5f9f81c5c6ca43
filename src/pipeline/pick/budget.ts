import { ALL_LOOKUP_KINDS, endpointOf, type LookupKind } from '../../domain/identifiers/kind.ts'
import { byKind, type ServiceCredits } from '../../domain/service/service.ts'
import {
  roundCredits,
  shareOfHighest,
  toLookupBudget,
  toUnits,
  type ConfiguredBudget,
  type MixedBudget,
  type Price,
  type SingleEndpoint,
} from '../../domain/spend.ts'
import { formatMoney, pluralize } from '../../util/text.ts'
import type { BudgetUsage, RunBound, ServiceBound } from '../../store/budgets.ts'

/** A budget in money is in lookups at the highest price. */
interface WeightedBudget extends MixedBudget {
  /** What a lookup of this service is of it. Null: one credit is one. */
  readonly weights: Readonly<Record<SingleEndpoint, number>> | null
}

/**
 * What a run may spend, in credits, and what it left for lack of budget. A run picks no more than its budget pays beside what
 * already waits for it; whether a lookup is requested is decided where it is leased (`store/budgets.ts`).
 */
export class RunBudget {
  readonly limit: number | null
  /** What lookups cost. */
  readonly credits: ServiceCredits
  /** Of a budget that is shared, the most for this run. */
  readonly ownLimit: number | null
  readonly #weighted: WeightedBudget | null
  /** What may be spent until the current source's share ends; null: the whole budget. */
  #shareEnd: number | null = null
  #skipped = 0
  #isReached = false
  /** What lookups cost at most as answers have stated it, if that is more than the description says. */
  #costs: BudgetUsage['costs'] = {}
  readonly #abandonedSkips = new Map<string, number>()
  readonly #pendingSkips = new Map<string, number>()
  readonly #unreadSources = new Set<string>()

  /**
   * @param limit credits; null is unlimited
   * @param ownLimit of it, the most for this run; null: all
   * @param weighted it is in money, and its lookups have several prices
   */
  constructor(
    limit: number | null,
    credits: ServiceCredits,
    ownLimit: number | null = null,
    weighted: WeightedBudget | null = null,
  ) {
    this.limit = limit
    this.credits = credits
    this.ownLimit = ownLimit
    this.#weighted = weighted
  }

  get #weights(): WeightedBudget['weights'] {
    return this.#weighted?.weights ?? null
  }

  /** The most that a lookup may cost. */
  charge({ kind }: { readonly kind: LookupKind }): number {
    return Math.max(this.#known(kind), this.#costs[kind] ?? 0)
  }

  /** What an answer has stated that a lookup costs, if that is more than the description says; null: none has. */
  get statedCost(): number | null {
    const above = ALL_LOOKUP_KINDS.filter((kind) => (this.#costs[kind] ?? 0) > this.#known(kind))
    return above.length === 0 ? null : Math.max(...above.map((kind) => this.charge({ kind })))
  }

  #known(kind: LookupKind): number {
    return this.#weights === null ? this.credits.most[kind] : this.#weights[endpointOf(kind)]
  }

  get isUnlimited(): boolean {
    return this.limit === null && this.ownLimit === null
  }

  /** Credits that may still be spent, within the current share. @param spent null: it has no bound */
  remaining(spent: BudgetUsage | null): number {
    if (spent === null) return Number.MAX_SAFE_INTEGER
    this.#costs = spent.costs
    const leftOfShare = leftOf(this.#shareEnd ?? this.limit, spent.spent)
    return Math.min(leftOfShare, leftOf(this.ownLimit, spent.own))
  }

  /** The most that this run may spend of the whole budget; null is unlimited. */
  get runLimit(): number | null {
    const limits = [this.limit, this.ownLimit].filter((limit) => limit !== null)
    return limits.length === 0 ? null : Math.min(...limits)
  }

  /** A part of the budget in words: `500 lookups`, `20.00 EUR`. */
  describe(part: number): string {
    if (this.#weighted === null) return pluralize(part, this.credits.isFlat ? 'lookup' : 'credit')
    const { amount, currency, highest } = this.#weighted
    return formatMoney({ amount: part === this.limit ? amount : roundCredits(part * highest), currency })
  }

  /** Its part of the bound that is stored with the run. @param most credits that an answer has stated lately, if that is more */
  toServiceBound(most: Readonly<Record<SingleEndpoint, number>>): ServiceBound {
    return {
      own: this.ownLimit,
      unit: this.#weights ?? { person: 1, company: 1 },
      most: byKind((kind) => Math.max(this.credits.most[kind], most[endpointOf(kind)])),
    }
  }

  /**
   * Gives the next source its share: an even part of what is left, so that one large source does not use up the budget
   * of all. What a source does not need is left to those after it.
   * @param sources sources that have not had their share, including this one
   */
  startShare(spent: number, sources: number): void {
    if (this.limit !== null)
      this.#shareEnd = roundCredits(spent + Math.ceil(roundCredits((this.limit - spent) / sources)))
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

  /** Sets how many rows of the run wait at its end that the budget cannot pay, of all sources. */
  setUnrequested(rows: number): void {
    this.#pendingSkips.clear()
    this.#pendingSkips.set('', rows)
  }
}

/** What decides what a service may spend of the budget of a run. */
interface ServiceMoney {
  readonly credits: ServiceCredits
  readonly price: Price | null
  /** Its own budget; null: as much as all. */
  readonly own: ConfiguredBudget | null
}

/**
 * What a service may spend of the budget of all. A run and its plan go by it. Pure.
 * @param options.budget of all, in lookups; null: unlimited
 * @param options.mixed the same in money, if lookups have several prices
 */
export function createBudget(
  { credits, price, own }: ServiceMoney,
  { budget, mixed = null }: { readonly budget: number | null; readonly mixed?: MixedBudget | null },
): RunBudget {
  const limit = mixed === null ? budget : toUnits(mixed.amount, mixed)
  const lookups = toLookupBudget(own, [price])
  const ownLookups = lookups === 'unlimited' ? null : lookups
  if (mixed === null) return new RunBudget(limit, credits, ownLookups)
  const weights = credits.isFlat ? shareOfHighest(price, mixed) : null
  const ownLimit =
    own !== null && typeof own === 'object'
      ? toUnits(own.amount, mixed)
      : ownLookups && ownLookups * Math.min(weights?.person ?? 1, weights?.company ?? 1)
  return new RunBudget(limit, credits, ownLimit, { ...mixed, weights })
}

/**
 * The budget of a run as it is stored with it.
 * @param overruns by service, what answers have stated lately to cost more than was expected
 * @returns null: it is unlimited
 */
export function toRunBound(
  parts: readonly { readonly service: number; readonly budget: RunBudget }[],
  overruns: ReadonlyMap<number, Readonly<Record<SingleEndpoint, number>>>,
): RunBound | null {
  if (parts.every(({ budget }) => budget.isUnlimited)) return null
  const toService = ({ service, budget }: (typeof parts)[number]) =>
    [service, budget.toServiceBound(overruns.get(service) ?? { person: 0, company: 0 })] as const
  return {
    isInCredits: parts.some(({ budget }) => !budget.credits.isFlat),
    limit: parts[0]?.budget.limit ?? null,
    services: Object.fromEntries(parts.map(toService)),
  }
}

/** @param limit null is unlimited */
const leftOf = (limit: number | null, spent = 0): number =>
  limit === null ? Number.MAX_SAFE_INTEGER : Math.max(0, roundCredits(limit - spent))

const sum = (rows: ReadonlyMap<string, number>): number =>
  [...rows.values()].reduce((total, n) => total + n, 0)
