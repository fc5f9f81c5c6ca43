import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { byKind } from '../../domain/service/credits.ts'
import { roundCredits } from '../../domain/spend.ts'
import { type KindCounts, sumCredits, sumOf } from './lookup-estimate.ts'

/** What is left of a budget. */
export class Purse {
  readonly budget: number
  /** Though what came before needs the most. */
  sure: number
  /** If it needs the least. */
  open: number

  constructor(budget: number) {
    this.budget = budget
    this.sure = budget
    this.open = budget
  }

  take(part: 'sure' | 'open', amount: number): void {
    this[part] = Math.max(0, roundCredits(this[part] - amount))
  }
}

/** A service's own budget, and what budgets pay of its lookups. */
export interface Account {
  readonly purse: Purse
  /** What a lookup takes of all budgets, at most and at least. */
  readonly most: KindCounts
  readonly least: KindCounts
  certain: KindCounts
  /** The most lookups besides. */
  more: number
  /** What one of these takes at least. */
  cheapest: number
}

/** What a source wants of one of its services. */
export interface WantedStep {
  readonly account: Account
  /** Lookups of rows that come to it whatever the services before it answer. */
  readonly certain: KindCounts
  /** Further lookups, if every row goes on to the end. */
  readonly more: number
  /** Of these, at most, those that do not depend on a lookup of the row's own being paid at a service before. */
  readonly free: number
  /** The most further lookups of a row that does depend on one. */
  readonly deepest: number
}

/** A source with its services, in their order. */
export interface WantedSource {
  /** The kinds of its lookups. */
  readonly kinds: readonly LookupKind[]
  readonly budget: number
  readonly steps: readonly WantedStep[]
}

/**
 * Pays wanted lookups from the accounts of their services. A budget that several share is used by the services that come first:
 * these are charged while the table is read, and later ones when rows are handed on to them.
 * @param total the budget of all together
 * @returns the most lookups of all together, besides what is certain
 */
export function payWanted(
  sources: readonly WantedSource[],
  accounts: readonly Account[],
  total: number,
): number {
  const ofAll = new Purse(total)
  const chains = sources.map((source) => ({ ...source, purse: new Purse(source.budget), paid: 0 }))
  for (let place = 0; chains.some(({ steps }) => place < steps.length); place++) {
    const turns = chains.flatMap((chain) => {
      const step = chain.steps[place]
      return step ? [{ ...step, chain, purses: [ofAll, step.account.purse, chain.purse] }] : []
    })
    const certain = payCertain(turns, ofAll)
    for (const [n, { purses, ...turn }] of turns.entries()) {
      const { account, chain } = turn
      const unpaid = sumOf(turn.certain) - (certain[n] ?? 0)
      const wanted = unpaid + Math.min(turn.more, turn.deepest * chain.paid + turn.free)
      const cheapest = Math.min(...chain.kinds.map((kind) => account.least[kind]))
      const more = Math.min(wanted, countPaid(purses, cheapest))
      const dearest = Math.max(...chain.kinds.map((kind) => account.most[kind]))
      for (const purse of purses) purse.take('sure', more * dearest)
      chain.paid += (certain[n] ?? 0) + more
      account.more += more
      if (more > 0) account.cheapest = Math.min(account.cheapest, cheapest)
    }
  }
  for (const account of accounts)
    account.more = Math.min(account.more, countPaid([ofAll, account.purse], account.cheapest))
  const more = accounts.reduce((sum, account) => sum + account.more, 0)
  return Math.min(more, countPaid([ofAll], Math.min(...accounts.map(({ cheapest }) => cheapest))))
}

/** How many lookups budgets pay, at a cost of each. */
const countPaid = (purses: readonly Purse[], each: number): number =>
  Math.min(...purses.map(({ open }) => (open === Infinity || each === 0 ? Infinity : roundDown(open / each))))

/** A quotient of decimals: 3 / 0.1 is 30. */
const roundDown = (quotient: number): number => Math.floor(roundCredits(quotient))

/**
 * Pays what is certain. Each source first gets an even part of the budget of all, and then what the others leave, as in a run;
 * within a source the kinds are taken in proportion.
 * @returns how many lookups of each
 */
function payCertain(
  turns: readonly (Pick<WantedStep, 'account' | 'certain'> & { readonly purses: readonly Purse[] })[],
  ofAll: Purse,
): number[] {
  const paid = turns.map(() => 0)
  for (const isShared of [true, false])
    for (const [n, { account, certain, purses }] of turns.entries()) {
      const share = isShared ? Math.ceil(roundCredits(ofAll.sure / (turns.length - n))) : Infinity
      const unpaid = roundCredits(sumCredits(certain, account.most).all - (paid[n] ?? 0))
      const added = Math.min(share, unpaid, ...purses.map(({ sure }) => sure))
      paid[n] = roundCredits((paid[n] ?? 0) + added)
      for (const purse of purses) purse.take('sure', added)
    }
  return turns.map(({ account, certain, purses }, n) => {
    const counts = takeKinds(certain, paid[n] ?? 0, account.most)
    for (const purse of purses) purse.take('open', sumCredits(counts, account.least).all)
    account.certain = byKind((kind) => account.certain[kind] + counts[kind])
    return sumOf(counts)
  })
}

/** What an amount pays of some lookups. */
function takeKinds(counts: KindCounts, amount: number, each: KindCounts): KindCounts {
  let [open, left] = [sumCredits(counts, each).all, amount]
  return byKind((kind) => {
    // What costs nothing is always paid, and no part of a lookup is.
    const part =
      each[kind] === 0 || open === 0
        ? counts[kind]
        : Math.min(Math.round((counts[kind] * left) / open), roundDown(left / each[kind]))
    open = roundCredits(open - counts[kind] * each[kind])
    left = roundCredits(left - part * each[kind])
    return part
  })
}
