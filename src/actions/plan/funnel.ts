import type { RunSpec } from '../../domain/run.ts'
import { roundCredits } from '../../domain/spend.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { lookupKey } from '../../pipeline/pick/choose.ts'
import { createPass, nextScanPage, PAGE_SIZE, ReadAhead } from '../../pipeline/pick/pass.ts'
import { describeFreshness } from '../../sources/freshness.ts'
import {
  addLeftOutKeys,
  type ConditionCount,
  countTableRows,
  describeUncounted,
  type RowCounts,
} from '../../sources/left-out.ts'
import type { Source } from '../../sources/source-model.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { LookupEstimate } from './lookup-estimate.ts'
import { type LookupChain, type PlannedPage, planPage, type PlanPhase } from './planned-page.ts'

/**
 * What a run would do with the rows of one source, each counted once: the numbers of each stage add up. A plan reads no
 * further than a run; numbers that need the whole table are then null.
 */
export interface SourcePlan {
  readonly source: string
  /** Where the plan stopped reading; null: it read the whole source. */
  readonly stopped_at: 'limit' | 'budget' | null
  /** A source with `changedAt`: only rows that changed since then, are due or were abandoned were read. Null: all rows. */
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

/** A picked row without a usable input. */
export interface InvalidInputRow {
  readonly source: string
  readonly key: string
  readonly reason: string
}

export interface FunnelOptions extends Pick<RunSpec, 'limit' | 'budget' | 'where'> {
  /** Stops reading where a run with this budget would. */
  readonly isBoundedByBudget: boolean
  readonly signal: AbortSignal
  /** Called with the rows of each page that a run would pick, without suppressed ones. */
  readonly onPicked?: (source: Source, chains: readonly LookupChain[]) => Promise<void>
  /** Also names some rows that each condition leaves out, and counts the conditions wherever the plan stops reading. */
  readonly listsFiltered?: boolean
  /** Called with those of each page that have no usable input, which `invalid_input` counts. */
  readonly onInvalid?: ((rows: readonly InvalidInputRow[]) => void) | undefined
}

/** Scans a source as a run would. */
export async function planSource(
  deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random' | 'adapter'>,
  source: Source,
  options: FunnelOptions,
  estimate: LookupEstimate,
): Promise<SourcePlan> {
  const { limit, signal } = options
  const counts = { rows: 0, complete: 0, fresh: 0, held: 0, picked: 0, suppressed: 0, valid_input: 0 }
  const invalid: Record<string, number> = {}
  let recentlyEnriched = 0
  const readAhead = new ReadAhead()
  // Where lookups cost parts of a credit, a budget pays more of them than it has credits.
  const each = Math.min(1, ...Object.values(deps.adapter.credits.most))
  let stoppedAt: SourcePlan['stopped_at'] = null
  const { changedSince } = await createPass(deps, source, options)
  const phases: PlanPhase[] = changedSince === null ? ['scan'] : ['abandoned', 'due', 'scan']
  let [phase] = phases
  let after: string | null = null
  let size = PAGE_SIZE
  while (phase !== undefined && stoppedAt === null) {
    const isBeyondBudget =
      options.isBoundedByBudget && roundCredits(estimate.requests * each) > (options.budget || Infinity)
    const room = limit === null ? null : limit - counts.picked
    const page: PlannedPage = await planPage(
      deps,
      source,
      { where: options.where, changedSince, phase, after, size, isBeyondBudget },
      room,
    )
    counts.rows += page.scanned
    for (const one of ['complete', 'fresh', 'held'] as const) counts[one] += page.dispositions[one] ?? 0
    recentlyEnriched += (page.dispositions.stamped ?? 0) + page.settled
    let free = 0
    const invalidRows: InvalidInputRow[] = []
    for (const [index, chain] of page.chains.entries()) {
      const { candidate } = chain
      if (!candidate.lacks) counts.complete++
      else {
        counts.picked++
        const outcome = page.suppressed.has(index) ? 'suppressed' : resolveChain(chain, page, estimate)
        if (outcome === 'suppressed') counts.suppressed++
        else if (outcome === 'invalid_input') {
          invalid[chain.reason] = (invalid[chain.reason] ?? 0) + 1
          invalidRows.push({ source: source.name, key: candidate.key, reason: chain.reason })
        } else {
          counts.valid_input++
          if (outcome === 'stored') free++
        }
      }
    }
    if (invalidRows.length > 0) options.onInvalid?.(invalidRows)
    await options.onPicked?.(
      source,
      page.chains.filter(({ candidate }, index) => candidate.lacks && !page.suppressed.has(index)),
    )
    after = page.next
    size = nextScanPage(size, page.densest)
    if (isBeyondBudget) readAhead.add(page.scanned, free)
    if (after === null) phase = phases[phases.indexOf(phase) + 1]
    if (phase !== undefined && limit !== null && counts.picked >= limit) stoppedAt = 'limit'
    else if (phase !== undefined && readAhead.isOver) stoppedAt = 'budget'
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

/** Where a row's chain ends, as far as that is known before any request: at a stored record or at a call. */
function resolveChain(
  { candidate, lookups: chain }: LookupChain,
  page: PlannedPage,
  estimate: LookupEstimate,
): 'invalid_input' | 'call' | 'stored' {
  const isOnlyForLater = candidate.lacks_here === false
  if (chain.length === 0) return candidate.missed === null && !isOnlyForLater ? 'invalid_input' : 'call'
  for (const [n, lookup] of chain.entries()) {
    const id = lookupKey(lookup)
    const costs = page.billable.has(id)
    estimate.add(lookup, costs)
    if (page.knownMisses.has(id)) continue
    for (const next of chain.slice(n + 1)) {
      if (page.billable.has(lookupKey(next))) estimate.addFallback(next)
    }
    return costs ? 'call' : 'stored'
  }
  return 'call'
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
    return {
      table: read,
      without_key: 0,
      filtered_out: 0,
      where_out: 0,
      conditions: [],
      conditions_error: null,
    }
  if (read === null && !listsFiltered) return NOT_COUNTED
  const count = (conditions: boolean): Promise<RowCounts> =>
    inTransaction(
      db,
      async (tx) => {
        const counted = await countTableRows(tx, source, { conditions })
        if (counted.conditions === null || !listsFiltered) return counted
        const withKeys = await addLeftOutKeys(tx, source, counted.conditions, LISTED_OF_CONDITION)
        return { ...counted, conditions: withKeys }
      },
      policy.sourceTimeoutMs,
    )
  let counted: RowCounts
  let conditions_error: string | null = null
  try {
    counted = await count(true)
  } catch (error) {
    conditions_error = describeUncounted(error)
    if (read === null) return { ...NOT_COUNTED, conditions_error }
    counted = await count(false)
  }
  const { withoutKey, conditions } = counted
  if (read === null) return { ...NOT_COUNTED, conditions }
  const whereOut = where === null ? 0 : Math.max(0, counted.eligible - read)
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
