import type { SourcePlan } from '../../domain/report/plan.ts'
import * as runs from '../../store/runs.ts'
import type { RunSpec } from '../../domain/run.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { readCandidates, type CandidatePage, type ReadOptions } from '../../pipeline/pick/candidates.ts'
import { findSuppressedRows } from '../../pipeline/pick/claim.ts'
import { nextScanPage, PAGE_SIZE } from '../../pipeline/pick/pass.ts'
import { isStretch, readStretch } from '../../pipeline/pick/pick.ts'
import { describeFreshness } from '../../sources/freshness.ts'
import { addLeftOutKeys, countTableRows, describeUncounted, type RowCounts } from '../../sources/left-out.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import type { Source } from '../../sources/source-model.ts'
import { inTransaction, type Tx } from '../../store/transaction.ts'
import type { PlannedStep, SourceWalk } from './walk.ts'

export interface FunnelOptions extends Pick<RunSpec, 'limit' | 'budget' | 'where'> {
  readonly signal: AbortSignal
  /** Also names some rows that each condition leaves out, and counts the conditions wherever the plan stops reading. */
  readonly listsFiltered?: boolean
}

/**
 * Scans a source as a run would.
 * @param first its first service
 * @param walk follows the rows that are picked
 */
export async function planSource(
  { service: { deps }, source }: PlannedStep,
  walk: SourceWalk,
  options: FunnelOptions,
): Promise<SourcePlan> {
  const { limit, signal } = options
  const counts = {
    rows: 0,
    complete: 0,
    fresh: 0,
    held: 0,
    picked: 0,
    suppressed: 0,
    valid_input: 0,
  }
  const invalid: Record<string, number> = {}
  let recentlyEnriched = 0
  let stoppedAt: SourcePlan['stopped_at'] = null
  let after: string | null = null
  let size = PAGE_SIZE
  for (let isDone = false; !isDone && stoppedAt === null;) {
    const room = limit === null ? null : limit - counts.picked
    const page = await planPage(deps, source, { where: options.where, after, size }, room)
    const lacking = page.candidates.filter(({ lacks }) => lacks)
    const picked = page.candidates.filter(({ lacks }, index) => lacks && !page.suppressed.has(index))
    counts.rows += page.scanned
    for (const name of ['complete', 'fresh', 'held'] as const) counts[name] += page.dispositions[name] ?? 0
    recentlyEnriched += (page.dispositions.stamped ?? 0) + page.settled
    counts.complete += page.candidates.length - lacking.length
    counts.picked += lacking.length
    counts.suppressed += lacking.length - picked.length
    const unusable = await walk.follow(picked, page.live)
    for (const { reason } of unusable) invalid[reason] = (invalid[reason] ?? 0) + 1
    counts.valid_input += picked.length - unusable.length
    after = page.next
    size = nextScanPage(size, page.densest)
    isDone = after === null
    if (!isDone && limit !== null && counts.picked >= limit) stoppedAt = 'limit'
    signal.throwIfAborted()
  }
  const before = await countOutside(deps, source, options, stoppedAt === null ? counts.rows : null)
  counts.fresh += recentlyEnriched
  const stamped =
    source.freshness === null ? null : { rows: recentlyEnriched, reason: describeFreshness(source) }
  return {
    source: source.name,
    stopped_at: stoppedAt,
    ...before,
    ...counts,
    recently_enriched: stamped,
    invalid_input: invalid,
  }
}

/** Named rows that one condition leaves out. */
const LISTED_OF_CONDITION = 5

type OutsideCounts = Pick<
  SourcePlan,
  'table' | 'without_key' | 'filtered_out' | 'where_out' | 'conditions' | 'conditions_error'
>

const NOT_COUNTED: OutsideCounts = {
  table: null,
  without_key: null,
  filtered_out: null,
  where_out: null,
  conditions: null,
  conditions_error: null,
}

/**
 * Counts what the filters exclude. A separate query: concurrent changes count as filtered out.
 * @param read eligible rows that were read; null: the plan has not read the whole source
 */
async function countOutside(
  { db, policy }: Pick<Deps, 'db' | 'policy'>,
  source: Source,
  { where, listsFiltered = false }: FunnelOptions,
  read: number | null,
): Promise<OutsideCounts> {
  const { mapping, keyColumns } = source
  const isUnfiltered =
    mapping.where.length === 0 && mapping.joins === null && keyColumns.every(({ notNull }) => notNull)
  if (isUnfiltered && where === null && read !== null)
    return { ...NOT_COUNTED, table: read, without_key: 0, filtered_out: 0, where_out: 0, conditions: [] }
  if (read === null && !listsFiltered) return NOT_COUNTED
  const count = (areConditionsCounted: boolean): Promise<RowCounts> =>
    inTransaction(
      db,
      async (tx) => {
        const counted = await countTableRows(tx, source, { conditions: areConditionsCounted })
        if (counted.conditions === null || !listsFiltered) return counted
        const withKeys = await addLeftOutKeys(tx, source, counted.conditions, LISTED_OF_CONDITION)
        return { ...counted, conditions: withKeys }
      },
      policy.sourceTimeoutMs,
    )
  let conditions_error: string | null = null
  const counted = await count(true).catch((error: unknown) => {
    conditions_error = describeUncounted(error)
    return read === null ? null : count(false)
  })
  const conditions = counted?.conditions ?? null
  if (counted === null || read === null) return { ...NOT_COUNTED, conditions, conditions_error }
  const whereOut = where === null ? 0 : Math.max(0, counted.eligible - read)
  const { withoutKey } = counted
  const filteredOut = Math.max(0, counted.table - read - whereOut - withoutKey)
  return {
    table: read + whereOut + filteredOut + withoutKey,
    without_key: withoutKey,
    filtered_out: filteredOut,
    where_out: whereOut,
    conditions,
    conditions_error,
  }
}

/**
 * Reads a page, or several, as a run would.
 * @returns it without the `settled` rows, which another program has enriched; the indexes of suppressed rows; and the live runs
 */
async function planPage(
  deps: Pick<Deps, 'db' | 'policy' | 'service'>,
  source: Source,
  { size, ...position }: Pick<ReadOptions, 'where' | 'after' | 'size'>,
  room: number | null,
) {
  const { db, policy, service } = deps
  const live = await runs.listHolding(db)
  const read = { ...position, live, service }
  const readPage = async (tx: Tx): Promise<CandidatePage> => {
    const whole = await readCandidates(tx, source, { ...read, size })
    const picked = whole.candidates.filter((candidate) => candidate.lacks && candidate.settledUntil === null)
    const last = room === null ? undefined : picked[room - 1]
    // Up to the last row within the limit, so that every count is of the same rows.
    return last === undefined || last.key === whole.last
      ? whole
      : { ...(await readCandidates(tx, source, { ...read, size, until: last.key })), next: last.key }
  }
  const page = await (
    isStretch(size, room)
      ? readStretch(deps, source, { ...read, size })
      : inTransaction(db, readPage, policy.sourceTimeoutMs)
  ).catch(async (error: unknown) => {
    const failed = { ...position, limit: size }
    throw (await explainPageFailure(db, source, failed, error)) ?? error
  })
  const candidates = page.candidates.filter((candidate) => candidate.settledUntil === null)
  const suppressed = await findSuppressedRows(db, source, candidates)
  return { ...page, candidates, settled: page.candidates.length - candidates.length, suppressed, live }
}
