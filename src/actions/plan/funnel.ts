import type { RunSpec } from '../../domain/run.ts'
import type { Deps } from '../../pipeline/deps.ts'
import {
  type CandidatePage,
  readCandidates,
  readCandidatesByKey,
  type ReadOptions,
} from '../../pipeline/pick/candidates.ts'
import { findSuppressedRows } from '../../pipeline/pick/choose.ts'
import { createPass, nextScanPage, PAGE_SIZE, type PickPass, seeksDue } from '../../pipeline/pick/pass.ts'
import { isStretch, readStretch } from '../../pipeline/pick/stretch.ts'

import { describeFreshness } from '../../sources/freshness.ts'
import {
  addLeftOutKeys,
  type ConditionCount,
  countTableRows,
  describeUncounted,
  type RowCounts,
} from '../../sources/left-out.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import type { Source } from '../../sources/source-model.ts'
import * as runs from '../../store/runs.ts'
import { inTransaction, type Tx } from '../../store/transaction.ts'
import { listAbandonedRows, listDueRows } from '../../store/waiting-rows.ts'
import type { PlannedStep, SourceWalk } from './walk.ts'

/**
 * What a run would do with the rows of one source, each counted once: the numbers of each stage add up. A plan reads no
 * further than a run; numbers that need the whole table are then null.
 */
export interface SourcePlan {
  readonly source: string
  /** Where the plan stopped reading; null: it read the whole source. */
  readonly stopped_at: 'limit' | null
  /**
   * A source with `changedAt`: only rows that changed since then, are due or were abandoned were read.
   * Null: all rows.
   */
  readonly changed_since: Date | null
  /** Rows of the table. */
  readonly table: number | null
  /** Let in by the filter and joins, with NULL in a column of the key: nothing identifies them. */
  readonly without_key: number | null
  /** Excluded by the source's filter and joins. */
  readonly filtered_out: number | null
  /** What each condition of the source's filter leaves out. Null: not counted. */
  readonly conditions: readonly ConditionCount[] | null
  /** Why the conditions could not be counted, in the database's words. */
  readonly conditions_error: string | null
  /** Excluded by `--where`. */
  readonly where_out: number | null
  /** Eligible rows that were read: what is left of the table. */
  readonly rows: number
  readonly complete: number
  readonly fresh: number
  /** Of the fresh rows, those whose `freshness` column is recent, whatever enriched them. Null: no `freshness`. */
  readonly recently_enriched: { readonly rows: number; readonly reason: string } | null
  readonly held: number
  readonly picked: number
  /** Picked rows without a usable input, by reason. */
  readonly invalid_input: Readonly<Record<string, number>>
  readonly suppressed: number
  /** Picked rows with a usable input. */
  readonly valid_input: number
}

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
  const counts = { rows: 0, complete: 0, fresh: 0, held: 0, picked: 0, suppressed: 0, valid_input: 0 }
  const invalid: Record<string, number> = {}
  let recentlyEnriched = 0
  let stoppedAt: SourcePlan['stopped_at'] = null
  const pass = await createPass(deps, source, options)
  const { changedSince } = pass
  const listed: PlanPhase[] = changedSince === null ? [] : ['abandoned']
  const phases: PlanPhase[] = [...listed, ...(seeksDue(pass) ? (['due'] as const) : []), 'scan']
  let [phase] = phases
  let after: string | null = null
  let size = PAGE_SIZE
  while (phase !== undefined && stoppedAt === null) {
    const room = limit === null ? null : limit - counts.picked
    const page = await planPage(
      deps,
      source,
      { where: options.where, changedSince, phase, after, size },
      room,
    )
    const lacking = page.candidates.filter(({ lacks }) => lacks)
    const picked = page.candidates.filter(({ lacks }, index) => lacks && !page.suppressed.has(index))
    counts.rows += page.scanned
    for (const one of ['complete', 'fresh', 'held'] as const) counts[one] += page.dispositions[one] ?? 0
    recentlyEnriched += (page.dispositions.stamped ?? 0) + page.settled
    counts.complete += page.candidates.length - lacking.length
    counts.picked += lacking.length
    counts.suppressed += lacking.length - picked.length
    const unusable = await walk.follow(picked, page.live)
    for (const { reason } of unusable) invalid[reason] = (invalid[reason] ?? 0) + 1
    counts.valid_input += picked.length - unusable.length
    after = page.next
    size = nextScanPage(size, page.densest)
    if (after === null) phase = phases[phases.indexOf(phase) + 1]
    if (phase !== undefined && limit !== null && counts.picked >= limit) stoppedAt = 'limit'
    signal.throwIfAborted()
  }
  const isWhole = stoppedAt === null && changedSince === null
  const before = await countOutside(deps, source, options, isWhole ? counts.rows : null)
  counts.fresh += recentlyEnriched
  const stamped =
    source.freshness === null ? null : { rows: recentlyEnriched, reason: describeFreshness(source) }
  return {
    source: source.name,
    stopped_at: stoppedAt,
    changed_since: changedSince,
    ...before,
    ...counts,
    recently_enriched: stamped,
    invalid_input: invalid,
  }
}

/** Rows that are named of those that one condition leaves out. */
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
    mapping.where.length === 0 && mapping.joins === null && keyColumns.every((one) => one.notNull)
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

type PlanPhase = Extract<PickPass['phase'], 'abandoned' | 'due' | 'scan'>

interface PlanPosition extends Pick<ReadOptions, 'where' | 'changedSince' | 'after' | 'size'> {
  readonly phase: PlanPhase
}

/**
 * Reads a page, or several, as a run would.
 * @returns it without the `settled` rows, which another program has enriched; the indexes of suppressed rows; and the live runs
 */
async function planPage(
  deps: Pick<Deps, 'db' | 'policy' | 'service'>,
  source: Source,
  { phase, size, ...position }: PlanPosition,
  room: number | null,
) {
  const { db, policy, service } = deps
  const { changedSince } = position
  const live = await runs.listHolding(db)
  const read = { ...position, staleSince: changedSince, live, service }
  const readPage = async (tx: Tx): Promise<CandidatePage> => {
    if (phase !== 'scan') return readListed(tx, source, phase, read, Math.min(room ?? size, PAGE_SIZE))
    const whole = excludeListed(await readCandidates(tx, source, { ...read, size }), changedSince)
    const picked = whole.candidates.filter((one) => one.lacks && one.settledUntil === null)
    const last = room === null ? undefined : picked[room - 1]
    // Up to the last row within the limit, so that every count is of the same rows.
    return last === undefined || last.key === whole.last
      ? whole
      : excludeListed(
          { ...(await readCandidates(tx, source, { ...read, size, until: last.key })), next: last.key },
          changedSince,
        )
  }
  const isStretched = phase === 'scan' && isStretch(size, { limit: room, changedSince })
  const page = await (
    isStretched
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

/** The rows that a pass by `changedAt` finds in Fillrate's own tables: abandoned ones, and due ones. */
async function readListed(
  tx: Tx,
  source: Source,
  phase: Exclude<PlanPhase, 'scan'>,
  { after, live, service }: Pick<ReadOptions, 'after' | 'live' | 'service'>,
  size: number,
): Promise<CandidatePage> {
  const keys =
    phase === 'abandoned'
      ? await listAbandonedRows(tx, source.name, live, after ?? '', size)
      : await listDueRows(tx, source.name, after ?? '', size)
  const candidates = await readCandidatesByKey(tx, source, keys, service)
  const next = keys.length === size ? (keys.at(-1) ?? null) : null
  return {
    candidates,
    dispositions: {},
    last: keys.at(-1) ?? null,
    next,
    scanned: candidates.length,
    densest: candidates.length,
  }
}

/** Without the rows that `readListed` has found already, if it has. */
function excludeListed(page: CandidatePage, changedSince: Date | null): CandidatePage {
  const candidates =
    changedSince === null
      ? page.candidates
      : page.candidates.filter((one) => one.disposition !== 'abandoned' && !one.isDue)
  const scanned = page.scanned - (page.candidates.length - candidates.length)
  return { ...page, candidates, scanned }
}
