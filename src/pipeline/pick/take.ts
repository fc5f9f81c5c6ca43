import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import * as budgets from '../../store/budgets.ts'
import { ERASED } from '../../store/erase.ts'
import * as lookups from '../../store/lookups.ts'
import * as rows from '../../store/rows.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction, MetAnother, type StoreTransaction } from '../../store/transaction.ts'
import type { Budget } from './budget.ts'
import type { Candidate } from './candidates.ts'
import { choose, distinctLookups, foundNothing, lookupId, unusable, type Chosen } from './choose.ts'
import { suppressedRows } from './suppressed.ts'

export interface Taken {
  readonly picked: number
  /** Lookups that this run is to ask now. */
  readonly admitted: number
  /** Rows left out because the budget would not pay their lookup. */
  readonly leftOut: readonly Candidate[]
  /** Rows whose lookup is already answered. */
  readonly answered: number
}

/**
 * Takes candidates into a run: their lookups and rows, in this transaction, in which the lookups are charged as well.
 * Lookups that would cost more than the budget has left are left out with their rows; rows that cost nothing are taken
 * all the same.
 */
export async function takeCandidates(
  tx: StoreTransaction,
  source: Source,
  run: {
    readonly id: number
    readonly live: readonly number[]
    readonly budget: Budget
    readonly dry: boolean
    readonly service: number
  },
  candidates: readonly Candidate[],
): Promise<Taken> {
  const all = candidates.map((candidate) => choose(source, candidate))
  const places = await suppressedRows(tx, source, candidates)
  const suppressed = new Set(all.filter((_, n) => places.has(n)))
  const askable = all.filter((one) => one.candidate.lacks && one.lookup !== null && !suppressed.has(one))
  const spent = await budgets.spentBy(tx, run.id)
  const paid = await paidBefore(tx, askable, run.id, spent)
  const affordable = new Set(await withinBudget(tx, askable, run, spent, paid))
  const questions = [...distinctLookups([...affordable]).values()]
  const wanted = await lookups.want(tx, questions, run.id, run.live, run.service)
  const admitted = wanted.filter((lookup) => lookup.admitted)
  const byId = new Map(wanted.map((lookup) => [lookupId(lookup), lookup]))

  const unaffordable = new Set(askable.filter((one) => !affordable.has(one)))
  const reason = run.dry ? 'asked by a dry run: the next run writes it' : null
  const picked = all
    .filter((one) => !unaffordable.has(one))
    .map((one) => toRow(one, byId, suppressed.has(one), reason))
  const taken = await rows.take(tx, source.name, run.id, run.live, picked, run)
  await charge(tx, run, admitted.filter((lookup) => !paid.has(lookupId(lookup))).length)
  return {
    picked: taken.length,
    admitted: admitted.length,
    leftOut: [...unaffordable].map((one) => one.candidate),
    answered: wanted.filter((lookup) => lookup.state !== 'pending' && lookup.state !== 'submitted').length,
  }
}

/**
 * Takes over the lookups that dead runs left waiting and that this run's rows want, as many as the budget pays, and
 * charges them. @returns how many
 */
export function adopt(
  db: Database,
  run: { readonly id: number; readonly budget: Budget },
  live: readonly number[],
): Promise<number> {
  return inTransaction(db, async (tx) => {
    const left = await budgets.leftOf(tx, run.id, run.budget.limit)
    const { adopted, cost } = await lookups.adopt(tx, run.id, live, left)
    await charge(tx, run, cost)
    return adopted
  })
}

/**
 * @throws MetAnother where the budget would not pay after all: a job that was given up since it was counted has freed its
 * inputs, or another run has spent of the same budget
 */
async function charge(
  tx: StoreTransaction,
  run: { readonly id: number; readonly budget: Budget },
  cost: number,
): Promise<void> {
  if (!(await budgets.charge(tx, run.id, run.budget.limit, cost)))
    throw new MetAnother('what was left of the budget changed while lookups were taken')
}

/** Those of the lookups that an earlier run of the same budget has paid and not asked. */
async function paidBefore(
  tx: StoreTransaction,
  chosen: readonly Chosen[],
  run: number,
  spent: budgets.Spent,
): Promise<ReadonlySet<string>> {
  if (!spent.isShared) return new Set()
  const list = [...distinctLookups(chosen).entries()]
  const flags = await lookups.paidBefore(
    tx,
    list.map(([, lookup]) => lookup),
    run,
  )
  return new Set(list.filter((_, n) => flags[n]).map(([id]) => id))
}

async function withinBudget(
  tx: StoreTransaction,
  chosen: readonly Chosen[],
  run: { readonly live: readonly number[]; readonly budget: Budget; readonly service: number },
  spent: budgets.Spent,
  paid: ReadonlySet<string>,
): Promise<readonly Chosen[]> {
  const { limit } = run.budget
  const distinct = distinctLookups(chosen)
  if (limit === null || distinct.size <= limit - spent.lookups) return chosen
  const list = [...distinct.entries()].filter(([id]) => !paid.has(id))
  const costs = await lookups.wouldCost(
    tx,
    list.map(([, lookup]) => lookup),
    run.live,
    run.service,
  )
  let left = limit - spent.lookups
  const refused = new Set(list.filter((_, n) => costs[n] && left-- <= 0).map(([id]) => id))
  return chosen.filter((one) => one.lookup !== null && !refused.has(lookupId(one.lookup)))
}

function toRow(
  { candidate, lookup, notes }: Chosen,
  byId: ReadonlyMap<string, lookups.WantedLookup>,
  isSuppressed: boolean,
  reason: string | null,
): rows.PickedRow {
  const { tried } = candidate
  const row = {
    key: candidate.key,
    inputHash: candidate.input_hash,
    lookup: null,
    notes: notes.length > 0 ? { inputs: notes } : null,
    tried: tried?.ids ?? [],
  }
  if (!candidate.lacks) return { ...row, state: Row.unchanged, reason: 'nothing left to fill' }
  if (isSuppressed) return { ...row, tried: [], state: Row.suppressed, reason: ERASED }
  if (lookup === null && tried !== null)
    return { ...row, state: Row.notFound, reason: foundNothing(tried.kinds), nextAt: tried.dueAt }
  if (lookup === null) return { ...row, state: Row.invalidInput, reason: unusable(notes) }
  return { ...row, state: Row.waiting, reason, lookup: byId.get(lookupId(lookup))?.id ?? null }
}
