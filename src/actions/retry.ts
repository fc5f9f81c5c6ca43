import * as store from '../store/rows.ts'
import type { TableDeps } from '../pipeline/deps.ts'
import { listEmptied } from '../pipeline/emptied-rows.ts'
import { readCandidatesByKey } from '../pipeline/pick/candidates.ts'
import type { Source } from '../sources/source-model.ts'
import { inTransaction } from '../store/transaction.ts'

/** Rows per batch, read from their source by key. */
const RETRY_BATCH_SIZE = 1_000

export interface RetryOptions extends store.RetryFilter {
  readonly sources: readonly Source[]
  /** Only count. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
}

/** What `retry` queued. */
export interface RetryReport {
  readonly dry_run: boolean
  /** Rows that the next run will pick. */
  readonly rows: number
  /** Distinct lookups that will be requested again. */
  readonly lookups: number
  /** Rows that will be written from their stored record, without a call. */
  readonly without_call: number
  /** Failed rows that left their source, have no blanks any more, or were enriched by another program. */
  readonly skipped: number
}

/**
 * Makes failed rows due, so that the next run picks them and no others. Rows with a stored record are then written
 * from it; failed lookups are requested again. It calls and writes nothing itself: what follows is paid
 * by a run within its budget.
 */
export async function retryFailedRows(deps: TableDeps, options: RetryOptions): Promise<RetryReport> {
  const counts = { rows: 0, without_call: 0, skipped: 0 }
  const lookups = new Set<number>()
  for (const source of options.sources) {
    let afterKey: string | null = null
    for (;;) {
      options.signal.throwIfAborted()
      const { read, ready, skipped }: RetryPage = await retryPage(deps, source, options, afterKey)
      counts.rows += ready.length
      counts.skipped += skipped
      for (const { needsCall, lookup } of ready) {
        if (!needsCall) counts.without_call++
        else if (lookup !== null) lookups.add(lookup)
      }
      afterKey = read.at(-1)?.key ?? null
      if (read.length < RETRY_BATCH_SIZE) break
    }
  }
  return { dry_run: options.dryRun, ...counts, lookups: lookups.size }
}

interface RetryPage {
  readonly read: readonly store.RetryRow[]
  /** Of these, rows that a run would pick. */
  readonly ready: readonly store.RetryRow[]
  readonly skipped: number
}

function retryPage(
  deps: TableDeps,
  source: Source,
  options: RetryOptions,
  afterKey: string | null,
): Promise<RetryPage> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const read = await store.listRetryRows(tx, source.name, options, afterKey, RETRY_BATCH_SIZE)
      const keys = read.map((row) => row.key)
      const isAsked = options.states.includes('emptied')
      const emptied = new Set(isAsked ? (await listEmptied(tx, source, keys)).map(({ key }) => key) : [])
      const found = read.filter(({ key, state }) => state !== 'emptied' || emptied.has(key))
      const candidates = await readCandidatesByKey(tx, source, keys)
      const lacking = new Set(
        candidates.flatMap((row) => (row.lacks && row.settledUntil === null ? row.key : [])),
      )
      const retryable = found.filter((row) => lacking.has(row.key))
      if (!options.dryRun) await store.makeRowsDue(tx, source.name, retryable)
      return { read, ready: retryable, skipped: found.length - retryable.length }
    },
    deps.policy.sourceTimeoutMs,
  )
}
