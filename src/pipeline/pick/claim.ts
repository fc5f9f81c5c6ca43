import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import * as budgets from '../../store/budgets.ts'
import { ERASED_REASON } from '../../store/erase.ts'
import * as lookups from '../../store/lookups.ts'
import type { Database } from '../../store/open.ts'
import * as rows from '../../store/rows.ts'
import { ConflictError, inTransaction, type Tx } from '../../store/transaction.ts'
import type { PickCandidate } from './candidates.ts'
import {
  chooseForCandidate,
  describeMiss,
  describeUnusable,
  distinctLookups,
  findSuppressedRows,
  lookupKey,
  type LookupChoice,
} from './choose.ts'

export interface ClaimResult {
  readonly picked: number
  /** Lookups that this run will request. */
  readonly claimedLookups: number
  /** Rows skipped because the budget could not pay their lookup. */
  readonly skipped: readonly PickCandidate[]
  /** Rows whose lookup is already answered. */
  readonly alreadyAnswered: number
}

/**
 * Claims candidates for a run: rows, lookups and charges, all in this transaction. Lookups beyond the budget are
 * skipped with their rows; rows that cost nothing are claimed regardless.
 */
export async function claimCandidates(
  tx: Tx,
  source: Source,
  run: {
    readonly id: number
    readonly live: readonly number[]
    readonly budget: RunBudget
    readonly isDryRun: boolean
    readonly service: number
  },
  candidates: readonly PickCandidate[],
): Promise<ClaimResult> {
  const choices = candidates.map((candidate) => chooseForCandidate(source, candidate))
  const suppressedIndexes = await findSuppressedRows(tx, source, candidates)
  const suppressed = new Set(choices.filter((_, n) => suppressedIndexes.has(n)))
  const requestable = choices.filter(
    (one) => one.candidate.lacks && one.lookup !== null && !suppressed.has(one),
  )
  const spent = await budgets.readBudgetUsage(tx, run.id)
  const paidKeys = await findPaidLookups(tx, requestable, run.id, spent)
  const affordable = new Set(await selectAffordable(tx, requestable, run, spent, paidKeys))
  const lookupsToClaim = [...distinctLookups([...affordable]).values()]
  const upserted = await lookups.upsertLookups(tx, lookupsToClaim, run.id, run.live, run.service)
  const claimed = upserted.filter((lookup) => lookup.claimed)
  const byId = new Map(upserted.map((lookup) => [lookupKey(lookup), lookup]))

  const unaffordable = new Set(requestable.filter((one) => !affordable.has(one)))
  const reason = run.isDryRun ? 'requested by a dry run: the next run writes it' : null
  const picked = choices
    .filter((one) => !unaffordable.has(one))
    .map((one) => toPickedRow(one, byId, suppressed.has(one), reason))
  const takenRows = await rows.claimRows(tx, source.name, run.id, run.live, picked, {
    dry: run.isDryRun,
    service: run.service,
  })
  await chargeLookups(tx, run, claimed.filter((lookup) => !paidKeys.has(lookupKey(lookup))).length)
  return {
    picked: takenRows.length,
    claimedLookups: claimed.length,
    skipped: [...unaffordable].map((one) => one.candidate),
    alreadyAnswered: upserted.filter((lookup) => lookup.state !== 'pending' && lookup.state !== 'submitted')
      .length,
  }
}

/**
 * Claims and charges the lookups that dead runs left waiting and that this run's rows need, as many as the budget
 * pays.
 * @returns how many
 */
export function adoptAbandonedLookups(
  db: Database,
  run: { readonly id: number; readonly budget: RunBudget },
  live: readonly number[],
): Promise<number> {
  return inTransaction(db, async (tx) => {
    const remaining = await budgets.remainingBudget(tx, run.id, run.budget.limit)
    const { adopted, cost } = await lookups.adoptLookups(tx, run.id, live, remaining)
    await chargeLookups(tx, run, cost)
    return adopted
  })
}

/**
 * @throws ConflictError if the budget does not suffice after all: a job expired after the count and freed its inputs,
 * or another run spent from the same budget
 */
async function chargeLookups(
  tx: Tx,
  run: { readonly id: number; readonly budget: RunBudget },
  cost: number,
): Promise<void> {
  if (!(await budgets.chargeBudget(tx, run.id, run.budget.limit, cost)))
    throw new ConflictError('the remaining budget changed while lookups were claimed')
}

/** Lookups that an earlier run of the same budget has paid and not requested. */
async function findPaidLookups(
  tx: Tx,
  chosen: readonly LookupChoice[],
  run: number,
  spent: budgets.BudgetUsage,
): Promise<ReadonlySet<string>> {
  if (!spent.isShared) return new Set()
  const entries = [...distinctLookups(chosen).entries()]
  const paidFlags = await lookups.findAlreadyPaid(
    tx,
    entries.map(([, lookup]) => lookup),
    run,
  )
  return new Set(entries.filter((_, n) => paidFlags[n]).map(([id]) => id))
}

async function selectAffordable(
  tx: Tx,
  chosen: readonly LookupChoice[],
  run: { readonly live: readonly number[]; readonly budget: RunBudget; readonly service: number },
  spent: budgets.BudgetUsage,
  paidKeys: ReadonlySet<string>,
): Promise<readonly LookupChoice[]> {
  const { limit } = run.budget
  const distinct = distinctLookups(chosen)
  if (limit === null || distinct.size <= limit - spent.lookups) return chosen
  const entries = [...distinct.entries()].filter(([id]) => !paidKeys.has(id))
  const costs = await lookups.needCall(
    tx,
    entries.map(([, lookup]) => lookup),
    run.live,
    run.service,
  )
  let remaining = limit - spent.lookups
  const unaffordable = new Set(entries.filter((_, n) => costs[n] && remaining-- <= 0).map(([id]) => id))
  return chosen.filter((one) => one.lookup !== null && !unaffordable.has(lookupKey(one.lookup)))
}

function toPickedRow(
  { candidate, lookup, notes }: LookupChoice,
  byId: ReadonlyMap<string, lookups.UpsertedLookup>,
  isSuppressed: boolean,
  reason: string | null,
): rows.PickedRow {
  const { missed } = candidate
  const row = {
    key: candidate.key,
    inputHash: candidate.input_hash,
    lookup: null,
    notes: notes.length > 0 ? { inputs: notes } : null,
    tried: missed?.ids ?? [],
  }
  if (!candidate.lacks) return { ...row, state: Row.unchanged, reason: 'nothing left to fill' }
  if (isSuppressed) return { ...row, tried: [], state: Row.suppressed, reason: ERASED_REASON }
  if (lookup === null && missed !== null)
    return { ...row, state: Row.notFound, reason: describeMiss(missed.kinds), nextAt: missed.dueAt }
  if (lookup === null) return { ...row, state: Row.invalidInput, reason: describeUnusable(notes) }
  return { ...row, state: Row.waiting, reason, lookup: byId.get(lookupKey(lookup))?.id ?? null }
}

/**
 * What a run may spend, in lookups, and what it skipped for lack of budget. A lookup is charged when the run claims
 * it, not when it is requested: a run never holds a lookup that it cannot pay, and retries are charged once. The
 * amount spent is in Postgres (`store/budgets.ts`), charged in the transaction that claims.
 */
export class RunBudget {
  readonly limit: number | null
  #skipped = 0
  readonly #abandonedSkips = new Map<string, number>()
  readonly #pendingSkips = new Map<string, number>()
  readonly #rowsTakenBySource = new Map<string, number | null>()

  /** @param limit lookups; null is unlimited */
  constructor(limit: number | null) {
    this.limit = limit
  }

  /** Rows not picked because the budget could not pay their lookup. */
  get rowsSkipped(): number {
    return this.#skipped + sum(this.#abandonedSkips)
  }

  /** Rows of the run that wait because the budget cannot pay their next lookup. */
  get rowsAwaitingBudget(): number {
    return sum(this.#pendingSkips)
  }

  /** Rows of a source that the run has taken. Null: must be counted, because the result of a COMMIT is unknown. */
  rowsTaken(source: string): number | null {
    return this.#rowsTakenBySource.get(source) ?? (this.#rowsTakenBySource.has(source) ? null : 0)
  }

  setRowsTaken(source: string, rows: number | null): void {
    this.#rowsTakenBySource.set(source, rows)
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
}

const sum = (rows: ReadonlyMap<string, number>): number =>
  [...rows.values()].reduce((total, one) => total + one, 0)
