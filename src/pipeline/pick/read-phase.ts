import * as writeBackQueue from '../../store/write-back-queue.ts'
import * as runs from '../../store/runs.ts'
import type { Source } from '../../sources/source-model.ts'
import { listAbandonedRows, listRequeuedRows } from '../../store/rows.ts'
import { beginAnew, resumeAtLaterStep } from '../../store/write-back-queue.ts'
import { inTransaction, TableBusyError, withTableTimeouts, type Tx } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { toMissingRow, toIdleRow } from '../row-results.ts'
import {
  readCandidates,
  readCandidatesByKey,
  finishedDispositionSql,
  lastWrittenSql,
  candidateColumnsSql,
  rowColumnsSql,
  withEarlier,
  type PickCandidate,
  type ReadOptions,
  type ScannedPage,
} from './candidates.ts'
import { toRunService, type PickContext, type PickOptions, type PickPass } from './pass.ts'
import { describeFreshness } from '../../sources/freshness.ts'
import { JOINED_TWICE } from '../../sources/page-failure.ts'
import { parseDuplicateKey, findDeletedKeys, keysQuery, pageColumnsSql } from '../../sources/page.ts'
import { describeError } from '../../util/error-text.ts'
import { sql } from 'kysely'
import { Row } from '../../domain/row.ts'
import { isAmbiguousError, isRowError } from '../../sources/db.ts'
import { restoreRows } from '../../store/deleted-rows.ts'
import { markDeleted } from '../deleted-rows.ts'
import { refillEmptied } from '../emptied-rows.ts'
import { claimCandidates } from './claim.ts'

/** What a tick goes by. */
export interface PickTick {
  readonly deps: Pick<Deps, 'db' | 'policy' | 'log' | 'adapter'>
  readonly run: PickContext
  readonly pass: PickPass
  readonly options: PickOptions
  /** The running runs, when it began. */
  readonly runningIds: readonly number[]
  /** Rows that it may take. */
  readonly allowed: number
  /** Rows of its page, which differ between phases. */
  size: number
}

export interface PhasePage extends Pick<ScannedPage, 'known' | 'next' | 'scanned' | 'densest'> {
  readonly candidates: PickCandidate[]
  /** Rows that wait and are no longer in the source. */
  readonly gone: writeBackQueue.FinishedRow[]
}

/** How the table is read on, from where the pass is. */
export const scanOptions = ({ run, pass, options, runningIds, size }: PickTick): ReadOptions => ({
  ...pass.scan.range,
  size,
  where: options.where,
  live: runningIds,
  service: run.service,
})

/** Reads a page of a phase, and settles what need not be picked of it; `stretch` is what was read of the table before the transaction. */
export async function readPhase(tick: PickTick, tx: Tx, stretch: ScannedPage | null): Promise<PhasePage> {
  const { run, pass } = tick
  const page = await readPhaseRows(tick, tx, stretch)
  const found = pass.phase === 'scan' ? page.candidates : await readAtLaterStep(tick, tx, page.candidates)
  const left =
    pass.phase === 'scan' || pass.phase === 'abandoned'
      ? await resumeAtLater(tx, pass.source, run, found)
      : found
  return { ...page, candidates: await settleStamped(tx, pass.source, left) }
}

/** Reads a page of a phase, and changes nothing. */
export async function readPhaseRows(tick: PickTick, tx: Tx, stretch: ScannedPage | null): Promise<PhasePage> {
  const { run, pass } = tick
  if (pass.phase === 'scan') {
    const page = stretch ?? (await readCandidates(tx, pass.source, scanOptions(tick)))
    return { ...page, gone: [] }
  }
  const keys = await listPhaseKeys(tick, tx)
  const byKey = new Map(
    (await readCandidatesByKey(tx, pass.source, keys, run.service)).map((row) => [row.key, row]),
  )
  return {
    // In the order of the list, because a claim may end within it.
    candidates: keys.flatMap((key) => byKey.get(key) ?? []),
    gone: keys.filter((key) => !byKey.has(key)).map(toMissingRow),
    known: 0,
    next: keys.length === listLimit(tick) ? (keys.at(-1) ?? null) : null,
    scanned: keys.length,
    densest: 0,
  }
}

/**
 * Rows that a service before this one has left. Where it has found a record, only a blank cell is lacking, whatever the policies.
 * With other inputs than it was requested with a row begins anew, with the first service.
 */
async function readAtLaterStep(
  { run, pass }: PickTick,
  tx: Tx,
  found: PickCandidate[],
): Promise<PickCandidate[]> {
  const { source } = pass
  if (source.mapping.step.isFirst) return found
  const changed = found.filter(({ missed }) => missed === null).map(({ key }) => key)
  await beginAnew(tx, source.name, changed, source.mapping.step)
  const own = found.filter(({ missed }) => missed !== null)
  const filled = own.filter(({ missed }) => missed?.stepsBefore?.onlyBlanks === true).map(({ key }) => key)
  const blanks = await readCandidatesByKey(tx, source.afterFound ?? source, filled, run.service)
  const lacking = new Map(blanks.map((candidate) => [candidate.key, candidate]))
  return own.map((candidate) => lacking.get(candidate.key) ?? candidate)
}

/**
 * Lets candidates that wait at a later service, with the inputs that those before were requested with, go on there.
 * @returns the others
 */
async function resumeAtLater(
  tx: Tx,
  { name, mapping: { step } }: Source,
  { id: run, service }: Pick<PickContext, 'id' | 'service'>,
  candidates: PickCandidate[],
): Promise<PickCandidate[]> {
  const { isFirst, services } = step
  if (!isFirst || services.length < 2) return candidates
  const waiting = candidates.filter(
    ({ disposition, missed }) => disposition === 'abandoned' && missed !== null,
  )
  const keys = waiting.map(({ key }) => key)
  const resumed = new Set(await resumeAtLaterStep(tx, name, keys, { run, service, services }))
  return candidates.filter(({ key }) => !resumed.has(key))
}

/** The most keys of a page that is listed. */
const listLimit = ({ allowed, size }: PickTick): number => Math.min(allowed, size)

/** The keys of a phase that reads Fillrate's own tables. */
export function listPhaseKeys(tick: PickTick, tx: Tx): Promise<string[]> {
  const { run, runningIds, pass } = tick
  const { source, after } = pass
  const limit = listLimit(tick)
  return pass.phase === 'requeued'
    ? listRequeuedRows(tx, source.name, toRunService(run), after, limit)
    : listAbandonedRows(tx, source.name, runningIds, after, limit)
}

/**
 * Finishes candidates that another program has enriched while they waited for a dead run.
 * @returns the others
 */
async function settleStamped<Candidate extends Pick<PickCandidate, 'key' | 'settledUntil'>>(
  tx: Tx,
  source: Source,
  candidates: readonly Candidate[],
): Promise<Candidate[]> {
  const stamped = candidates.filter((candidate) => candidate.settledUntil !== null)
  if (stamped.length === 0) return [...candidates]
  const reason = describeFreshness(source)
  await writeBackQueue.finishRows(
    tx,
    source.name,
    stamped.map(({ key, settledUntil }) => ({ ...toIdleRow(key, reason), nextAt: settledUntil })),
  )
  return candidates.filter((candidate) => candidate.settledUntil === null)
}

interface PickedKeys {
  readonly picked: number
  readonly claimed: number
  /** Rows whose lookup the budget could not pay: to be picked again. */
  readonly skippedKeys: readonly string[]
}

export interface PickKeysOptions {
  /**
   * The rows wait for a dead run: rows that are no longer in the source must be finished, or they would wait
   * forever.
   */
  readonly finishMissing?: boolean
  /** Of the keys, those of which a trigger has seen that their rows were deleted: others may have them by now. */
  readonly seenGone?: readonly string[]
}

const NOTHING: PickedKeys = { picked: 0, claimed: 0, skippedKeys: [] }

/**
 * Picks changed rows by key. Rows held by a less urgent run are taken from it, with their lookups. A row on which an
 * expression fails is left to the next run of its source, which reports it; the others are picked.
 */
export async function pickChangedKeys(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'adapter'>,
  run: PickContext,
  source: Source,
  keys: readonly string[],
  options: PickKeysOptions = {},
): Promise<PickedKeys> {
  if (keys.length === 0) return NOTHING
  try {
    const { sourceTimeoutMs } = deps.policy
    return await inTransaction(
      deps.db,
      (tx) =>
        claimKeys(tx, run, source, keys, {
          ...options,
          timeoutMs: sourceTimeoutMs,
        }),
      sourceTimeoutMs,
    )
  } catch (error) {
    const isSlow = error instanceof TableBusyError && error.reason === 'slow'
    const isOfRow = isRowError(error) && !isAmbiguousError(error)
    if (!isOfRow && !isSlow) throw error
    if (keys.length === 1) {
      deps.log.warn(
        {
          event: 'row_unreadable',
          source: source.name,
          reason: parseDuplicateKey(error) === null ? describeError(error) : JOINED_TWICE,
        },
        'changed row cannot be read; the next run of its source reports it',
      )
      return NOTHING
    }
    const middle = Math.ceil(keys.length / 2)
    const first = await pickChangedKeys(deps, run, source, keys.slice(0, middle), options)
    const second = await pickChangedKeys(deps, run, source, keys.slice(middle), options)
    return {
      picked: first.picked + second.picked,
      claimed: first.claimed + second.claimed,
      skippedKeys: [...first.skippedKeys, ...second.skippedKeys],
    }
  }
}

async function claimKeys(
  tx: Tx,
  run: PickContext,
  source: Source,
  keys: readonly string[],
  { finishMissing = false, seenGone = [], timeoutMs }: PickKeysOptions & { readonly timeoutMs: number },
): Promise<PickedKeys> {
  const running = await runs.listHolding(tx)
  const ownIndex = running.indexOf(run.id)
  if (ownIndex === -1) return { ...NOTHING, skippedKeys: keys }
  // Sorted by urgency: the runs after this one have to yield their rows.
  const runningIds = running.slice(0, ownIndex + 1)
  // A row that was deleted and inserted again goes on where it was.
  const restored = await restoreRows(tx, source.name, keys)
  const returned = [...restored, ...seenGone]
  if (returned.length > 0) await withTableTimeouts(tx, timeoutMs, () => refillEmptied(tx, source, returned))
  const found = await withTableTimeouts(tx, timeoutMs, () =>
    readChangedRows(tx, source, run, runningIds, keys),
  )
  const present = new Set(found.map(({ key }) => key))
  const missing = keys.filter((key) => !present.has(key))
  const deleted = await withTableTimeouts(tx, timeoutMs, () => findDeletedKeys(tx, source, missing))
  await markDeleted(tx, source, deleted)
  if (finishMissing) await writeBackQueue.finishRows(tx, source.name, missing.map(toMissingRow))
  const left = await resumeAtLater(
    tx,
    source,
    run,
    found.filter(({ disposition }) => disposition === 'eligible' || disposition === 'abandoned'),
  )
  const candidates = await settleStamped(tx, source, left)
  if (candidates.length === 0) return NOTHING
  const claimed = await claimCandidates(tx, source, { ...run, live: runningIds }, candidates)
  return {
    picked: claimed.picked,
    claimed: claimed.claimedLookups,
    skippedKeys: claimed.skipped.map((candidate) => candidate.key),
  }
}

/**
 * Reads the rows and their disposition as a page of a pass does, except that the run's own rows may be picked anew.
 */
async function readChangedRows(
  tx: Tx,
  source: Source,
  run: PickContext,
  runningIds: readonly number[],
  keys: readonly string[],
): Promise<PickCandidate[]> {
  const page = keysQuery(source, keys, lastWrittenSql(source).lastWritten)
  const isWaitingSql = sql`r.state = ${sql.lit(Row.waiting)}`
  const result = await sql<PickCandidate>`
      select ${pageColumnsSql(source)}, ${candidateColumnsSql(source, run.service)}, case
               when ${isWaitingSql} and r.run_id = any(${[...runningIds]}::bigint[])
                    and (r.run_id <> ${run.id} or r.input_hash = page.input_hash) then 'held'
               when ${isWaitingSql} then 'abandoned'
               else ${finishedDispositionSql(source, run.service)}
             end as disposition
        from (${page}) as page left join lateral (
          select ${rowColumnsSql(source)} from fillrate.rows where source = ${source.name} and key = page.key offset 0
        ) r on true
       order by page.key`.execute(tx)
  return result.rows.map(withEarlier)
}
