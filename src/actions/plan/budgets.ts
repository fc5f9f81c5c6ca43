import { ALL_LOOKUP_KINDS, type LookupKind } from '../../domain/identifiers/kind.ts'
import { byKind, shareCredits } from '../../domain/service/credits.ts'
import { roundCredits } from '../../domain/spend.ts'
import { type KindCounts, sumOf } from './lookup-estimate.ts'

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

/** A source with its services. */
export interface WantedSource {
  readonly budget: number
  readonly steps: readonly WantedStep[]
}

/** What budgets pay of the lookups of a service. */
export interface PaidLookups {
  readonly certain: KindCounts
  /** The most, with the certain ones. */
  readonly max: number
}

/** Certain lookups of a kind, as many as budgets pay. */
interface Cell {
  readonly account: Account
  readonly kind: LookupKind
  count: number
}

interface Step {
  readonly source: WantedSource
  readonly account: Account
  readonly cells: readonly Cell[]
  most: number
}

/**
 * Bounds wanted lookups by the budgets of their sources and services, and by the budget of all together.
 * Of a budget that does not pay all certain lookups, it takes the fewest that use it up, a part of each kind.
 * @returns what each service may be requested with, and the most lookups of all services together
 */
export function payWanted(
  sources: readonly WantedSource[],
  accounts: readonly Account[],
  total: number,
): { readonly paid: readonly PaidLookups[]; readonly max: number } {
  const steps = sources.flatMap((source) =>
    source.steps.map(({ account, certain, more }): Step => {
      const cells = ALL_LOOKUP_KINDS.map((kind) => ({ account, kind, count: certain[kind] }))
      return { source, account, cells, most: sumOf(certain) + more }
    }),
  )
  const ofSources = sources.map((source) =>
    payFrom(
      source.budget,
      steps.filter((step) => step.source === source),
    ),
  )
  const ofService = (account: Account): Step[] => steps.filter((step) => step.account === account)
  const ofServices = accounts.map((account) => payFrom(account.budget, ofService(account)))
  const ofAll = payFrom(total, steps)
  const paid = accounts.map((account, n) => {
    const own = ofService(account)
    const cells = own.flatMap((step) => step.cells)
    const certain = byKind((kind) => countCells(cells.filter((cell) => cell.kind === kind)))
    return { certain, max: Math.min(ofAll, ofServices[n] ?? 0, sum(own.map(({ most }) => most))) }
  })
  return { paid, max: Math.min(ofAll, sum(ofSources), sum(paid.map(({ max }) => max))) }
}

/** Bounds the lookups that a budget pays. @returns the most of them together */
function payFrom(budget: number, steps: readonly Step[]): number {
  const cells = steps.flatMap((step) => step.cells)
  const isEnough = costCells(cells, 'most') <= budget
  if (!isEnough) cutCells(cells, budget)
  // Lookups that are not certain, and cost the least, may take what the certain ones leave. A budget that
  // does not pay all certain ones may be used for any lookups.
  const left = isEnough ? budget - costCells(cells, 'least') : budget
  const countMost = (some: readonly Cell[], each: number): number =>
    (isEnough ? countCells(some) : 0) + (left === Infinity || each === 0 ? Infinity : roundDown(left / each))
  const cheapest = ({ account }: Step): number => Math.min(...Object.values(account.least))
  for (const step of steps) step.most = Math.min(step.most, countMost(step.cells, cheapest(step)))
  return Math.min(sum(steps.map(({ most }) => most)), countMost(cells, Math.min(...steps.map(cheapest))))
}

/** Leaves the fewest lookups that use up a budget, which are the dearest, as a part of each kind. */
function cutCells(cells: readonly Cell[], budget: number): void {
  // What costs nothing is always paid.
  const billed = cells.filter((cell) => mostOf(cell) > 0)
  let [fewest, left] = [0, budget]
  for (const cell of billed.toSorted((a, b) => mostOf(b) - mostOf(a))) {
    const paid = Math.min(cell.count, roundDown(left / mostOf(cell)))
    fewest += paid
    left = roundCredits(left - paid * mostOf(cell))
  }
  const weights = billed.map((cell) => cell.count)
  for (const [n, count] of shareCredits(fewest, weights).entries()) {
    const cell = billed[n]
    if (cell) cell.count = count
  }
}

const mostOf = ({ account, kind }: Cell): number => account.most[kind]

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)

const countCells = (cells: readonly Cell[]): number => sum(cells.map(({ count }) => count))

const costCells = (cells: readonly Cell[], at: 'most' | 'least'): number =>
  roundCredits(sum(cells.map(({ account, kind, count }) => count * account[at][kind])))

/** A quotient of decimals: 3 / 0.1 is 30. */
const roundDown = (quotient: number): number => Math.floor(roundCredits(quotient))
