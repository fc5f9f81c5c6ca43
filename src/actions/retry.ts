import type { TableDeps } from '../pipeline/deps.ts'
import { listEmptied } from '../pipeline/emptied-rows.ts'
import { readCandidatesByKey } from '../pipeline/pick/candidates.ts'
import type { Source } from '../sources/source-model.ts'
import * as store from '../store/requeue-rows.ts'
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
  /** Skipped: the row is no longer in its source. */
  readonly row_missing: number
  /** Skipped: the row has no blanks any more, or another program has enriched it since. */
  readonly complete: number
}

/**
 * Makes failed rows due, so that the next run picks them and no others. Rows with a stored record are then written
 * from it; failed lookups are requested again. It calls and writes nothing itself: what follows is paid by a run
 * within its budget.
 */
export async function retryFailedRows(deps: TableDeps, options: RetryOptions): Promise<RetryReport> {
  const counts = { rows: 0, without_call: 0, row_missing: 0, complete: 0 }
  const lookups = new Set<number>()
  for (const source of options.sources) {
    let afterKey = ''
    for (;;) {
      options.signal.throwIfAborted()
      const { read, ready, gone, complete } = await retryPage(deps, source, options, afterKey)
      counts.rows += ready.length
      counts.row_missing += gone
      counts.complete += complete
      for (const { needsCall, lookup } of ready) {
        if (!needsCall) counts.without_call++
        else if (lookup !== null) lookups.add(lookup)
      }
      afterKey = read.at(-1)?.key ?? ''
      if (read.length < RETRY_BATCH_SIZE) break
    }
  }
  return { dry_run: options.dryRun, ...counts, lookups: lookups.size }
}

interface RetryPage {
  readonly read: readonly store.RetryRow[]
  /** Of these, rows that a run would pick. */
  readonly ready: readonly store.RetryRow[]
  readonly gone: number
  readonly complete: number
}

function retryPage(
  deps: TableDeps,
  source: Source,
  options: RetryOptions,
  afterKey: string,
): Promise<RetryPage> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const read = await store.listRetryRows(tx, source.name, options, afterKey, RETRY_BATCH_SIZE)
      const keys = read.map((row) => row.key)
      const isAsked = options.states.includes('emptied')
      const emptied = new Set(isAsked ? (await listEmptied(tx, source, keys)).map(({ key }) => key) : [])
      const found = read.filter(({ key, state }) => state !== 'emptied' || emptied.has(key))
      const lacksByKey = new Map(
        (await readCandidatesByKey(tx, source, keys)).map((row) => [
          row.key,
          row.lacks && row.settledUntil === null,
        ]),
      )
      const retryable = found.filter((row) => lacksByKey.get(row.key) === true)
      if (!options.dryRun) await store.makeRowsDue(tx, source.name, retryable)
      const missing = found.filter((row) => !lacksByKey.has(row.key)).length
      return { read, ready: retryable, gone: missing, complete: found.length - missing - retryable.length }
    },
    deps.policy.sourceTimeoutMs,
  )
}
