import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import { ERASED } from '../../store/erase.ts'
import * as lookups from '../../store/lookups.ts'
import * as rows from '../../store/rows.ts'
import { MetAnother, type StoreTransaction } from '../../store/transaction.ts'
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
 * Takes candidates into a run: their lookups and rows, in this transaction. Lookups that would cost more than the
 * budget has left are left out with their rows; rows that cost nothing are taken all the same.
 */
export async function takeCandidates(
  tx: StoreTransaction,
  source: Source,
  run: {
    readonly id: number
    readonly live: readonly number[]
    readonly budget: Budget
    readonly dry: boolean
  },
  candidates: readonly Candidate[],
): Promise<Taken> {
  const all = candidates.map((candidate) => choose(source, candidate))
  const places = await suppressedRows(tx, source, candidates)
  const suppressed = new Set(all.filter((_, n) => places.has(n)))
  const askable = all.filter((one) => one.candidate.lacks && one.lookup !== null && !suppressed.has(one))
  const affordable = new Set(await withinBudget(tx, askable, run))
  const wanted = await lookups.want(tx, [...distinctLookups([...affordable]).values()], run.id, run.live)
  const admitted = wanted.filter((lookup) => lookup.admitted).length
  // A job that was given up between the two looks has freed its inputs: what cost nothing then would cost now.
  if (admitted > run.budget.left) throw new MetAnother('lookups became due while they were counted')
  const byId = new Map(wanted.map((lookup) => [lookupId(lookup), lookup]))

  const unaffordable = new Set(askable.filter((one) => !affordable.has(one)))
  const reason = run.dry ? 'asked by a dry run: the next run writes it' : null
  const picked = all
    .filter((one) => !unaffordable.has(one))
    .map((one) => toRow(one, byId, suppressed.has(one), reason))
  const taken = await rows.take(tx, source.name, run.id, run.live, picked, run.dry)
  return {
    picked: taken.length,
    admitted,
    leftOut: [...unaffordable].map((one) => one.candidate),
    answered: wanted.filter((lookup) => lookup.state !== 'pending' && lookup.state !== 'submitted').length,
  }
}

async function withinBudget(
  tx: StoreTransaction,
  chosen: readonly Chosen[],
  run: { readonly live: readonly number[]; readonly budget: Budget },
): Promise<readonly Chosen[]> {
  const distinct = distinctLookups(chosen)
  if (distinct.size <= run.budget.left) return chosen
  const list = [...distinct.entries()]
  const costs = await lookups.wouldCost(
    tx,
    list.map(([, lookup]) => lookup),
    run.live,
  )
  let left = run.budget.left
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
