import { coverage as count, type Coverage } from '../sources/coverage.ts'
import type { Source } from '../sources/source.ts'
import * as measured from '../store/coverage.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { readQuotas, type Quota } from './quotas.ts'
import { status, type Status } from './status.ts'

/** Counting a column reads the whole table; a big one is not worth waiting longer for. */
const COVERAGE_TIMEOUT_MS = 30_000
const QUERY_CANCELED = '57014'

/** How things stand, as `fillrate status --json` and `GET /api/status` report it; only the former counts the columns anew. */
export interface StatusReport extends Omit<Status, 'limit'> {
  readonly limits: ReadonlyArray<{
    readonly scope: string
    readonly limit: number
    readonly window_ms: number | null
    readonly observed_at: Date
    /** What the process that calls told last. Null: nothing yet. */
    readonly status: Quota['told']
  }>
  /** By source; a text says why it is not known. `measured_at`: it was counted then, by a run. */
  readonly fill_rate: Readonly<Record<string, (Coverage & { readonly measured_at?: Date }) | string>>
}

/** @param names the sources to tell of */
export async function statusReport(
  db: Database,
  names: readonly string[],
  fill_rate: StatusReport['fill_rate'],
): Promise<StatusReport> {
  const { limit: _, ...state } = await status(db, names, null)
  const limits = (await readQuotas(db)).map((one) => ({
    scope: one.scope,
    limit: one.limit,
    window_ms: one.windowMs,
    observed_at: new Date(one.observedAt),
    status: one.told,
  }))
  return { ...state, limits, fill_rate }
}

/** Counts the columns in the user's table. @returns a text where that takes too long */
export async function coverageOf(db: Database, source: Source): Promise<Coverage | string> {
  try {
    return await inTransaction(db, (tx) => count(tx, source), COVERAGE_TIMEOUT_MS)
  } catch (error) {
    if ((error as { code?: string }).code === QUERY_CANCELED)
      return `not known: counting takes longer than ${COVERAGE_TIMEOUT_MS / 1_000} s`
    throw error
  }
}

/** What was counted last, by a run: a program that asks every few seconds must cost the user's tables nothing. */
export async function lastCoverage(db: Database, source: Source): Promise<StatusReport['fill_rate'][string]> {
  const last = await measured.latest(db, source.name)
  if (last === null) return 'not known: it is counted by runs, and there was none yet'
  const columns = source.outputs.map(({ column }) => ({ column, filled: last.filled[column] ?? 0 }))
  return { eligible: last.eligible, columns, measured_at: last.at }
}
