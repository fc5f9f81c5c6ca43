import * as runs from '../../store/runs.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import { JOINED_TWICE } from '../../sources/page-failure.ts'
import { parseDuplicateKey, findDeletedKeys, keysQuery, pageColumnsSql } from '../../sources/page.ts'
import { describeError } from '../../util/error-text.ts'
import { sql } from 'kysely'
import { Row } from '../../domain/row.ts'
import { isAmbiguousError, isRowError } from '../../sources/db.ts'
import type { Source } from '../../sources/source-model.ts'
import { restoreRows } from '../../store/deleted-rows.ts'
import { inTransaction, TableBusyError, withTableTimeouts, type Tx } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { markDeleted } from '../deleted-rows.ts'
import { refillEmptied } from '../emptied-rows.ts'
import { toMissingRow } from '../row-results.ts'
import {
  finishedDispositionSql,
  lastWrittenSql,
  candidateColumnsSql,
  rowColumnsSql,
  withEarlier,
  type PickCandidate,
} from './candidates.ts'
import { claimCandidates } from './claim.ts'
import type { PickContext } from './pass.ts'
import { resumeAtLater, settleStamped } from './read-phase.ts'

interface PickedKeys {
  readonly picked: number
  readonly claimed: number
  /** Rows whose lookup the budget could not pay: to be picked again. */
  readonly skippedKeys: readonly string[]
}

export interface PickKeysOptions {
  /**
   * The rows wait for a dead run: those that are no longer in the source must be finished, or they would wait
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
  const present = new Set(found.map((one) => one.key))
  const missing = keys.filter((key) => !present.has(key))
  const deleted = await withTableTimeouts(tx, timeoutMs, () => findDeletedKeys(tx, source, missing))
  await markDeleted(tx, source, deleted)
  if (finishMissing) await writeBackQueue.finishRows(tx, source.name, missing.map(toMissingRow))
  const { candidates: left } = await resumeAtLater(
    tx,
    source,
    run,
    found.filter((one) => one.disposition === 'eligible' || one.disposition === 'abandoned'),
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
