import * as store from '../store/requeue-rows.ts'
import type { FailureState, RetryState } from '../domain/row.ts'
import type { Source } from '../sources/source.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps } from '../pipeline/deps.ts'
import { readCandidatesByKey } from '../pipeline/pick/candidates.ts'

/** Rows of one batch: read from their source by key. */
const RETRY_BATCH_SIZE = 1_000

export interface RetryOptions extends store.RetryFilter {
  readonly sources: readonly Source[]
  /** Counts, and makes nothing due. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
}

/** What `retry` made due. */
export interface RetryReport {
  readonly dry_run: boolean
  /** Rows that the next run will pick. */
  readonly rows: number
  readonly reasons: readonly RetryReason[]
  /** Distinct lookups among them that will be asked again. */
  readonly lookups: number
  /** Rows that will be written from their stored answer, without a call. */
  readonly without_call: number
  /** Left alone: the row is no longer in its source. */
  readonly row_missing: number
  /** Left alone: nothing of the row lacks any more. */
  readonly complete: number
}

export interface RetryReason {
  readonly source: string
  readonly state: RetryState
  readonly reason: string
  readonly rows: number
}

/**
 * Makes what failed due, so that the next run picks it: those rows, and no others. A row whose answer is stored is then
 * written from it; a lookup that failed itself is asked again. Asks and writes nothing by itself, so that what follows
 * is paid by a run with its budget.
 */
export async function retryFailedRows(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  options: RetryOptions,
): Promise<RetryReport> {
  const counts = { rows: 0, without_call: 0, row_missing: 0, complete: 0 }
  const reasons = new Map<string, { source: string; state: RetryState; reason: string; rows: number }>()
  const lookups = new Set<number>()
  for (const source of options.sources) {
    let after = ''
    for (;;) {
      options.signal.throwIfAborted()
      const { read, ready, ...rest } = await retryPage(deps, source, options, after)
      counts.rows += ready.length
      counts.row_missing += rest.gone
      counts.complete += rest.complete
      for (const { state, reason, asks, lookup } of ready) {
        const name = JSON.stringify([source.name, state, reason])
        const one = reasons.get(name) ?? { source: source.name, state, reason: reason ?? '', rows: 0 }
        reasons.set(name, { ...one, rows: one.rows + 1 })
        if (!asks) counts.without_call++
        else if (lookup !== null) lookups.add(lookup)
      }
      after = read.at(-1)?.key ?? ''
      if (read.length < RETRY_BATCH_SIZE) break
    }
  }
  const byRows = [...reasons.values()].sort((a, b) => b.rows - a.rows)
  return { dry_run: options.dryRun, ...counts, lookups: lookups.size, reasons: byRows }
}

interface RetryPage {
  readonly read: readonly store.RetryRow[]
  /** Of these, those that a run would pick. */
  readonly ready: readonly store.RetryRow[]
  readonly gone: number
  readonly complete: number
}

function retryPage(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  source: Source,
  options: RetryOptions,
  after: string,
): Promise<RetryPage> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const read = await store.listRetryRows(tx, source.name, options, after, RETRY_BATCH_SIZE)
      const keys = read.map((row) => row.key)
      const there = new Map(
        (await readCandidatesByKey(tx, source, keys, deps.service)).map((row) => [row.key, row.lacks]),
      )
      const ready = read.filter((row) => there.get(row.key) === true)
      if (!options.dryRun) await store.makeRowsDue(tx, source.name, ready)
      const gone = read.filter((row) => !there.has(row.key)).length
      return { read, ready, gone, complete: read.length - gone - ready.length }
    },
    deps.rules.sourceTimeoutMs,
  )
}

/** What becomes of rows that could not be enriched by themselves, and what one can do. */
export const FAILURE_ADVICE: Readonly<Record<FailureState, string>> = {
  failed: 'the service gave no answer; asked again by a run from the next day on, or after `fillrate retry`',
  rejected:
    'the service does not take the question; asked again when the row changes, or after `fillrate retry`',
  write_rejected:
    'the answer is kept, and the database would not have it in its column; `fillrate retry` has it written without a call',
  invalid_input: 'not asked; correct the row, and the next run picks it',
  below_confidence:
    'answered, but less surely than minConfidence asks for; with a lower one, `fillrate remap SOURCE` writes it without a call',
}
