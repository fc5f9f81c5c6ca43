import { coverage as count, type Coverage } from '../sources/coverage.ts'
import type { Source } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { readQuotas, type Quota } from './quotas.ts'
import { status, type Status } from './status.ts'

/** Counting a column reads the whole table; a big one is not worth waiting longer for. */
const COVERAGE_TIMEOUT_MS = 30_000
const QUERY_CANCELED = '57014'

/** How things stand, as `fillrate status --json` and `GET /api/status` tell it. */
export interface StatusReport extends Omit<Status, 'limit'> {
  readonly limits: ReadonlyArray<{
    readonly scope: string
    readonly limit: number
    readonly window_ms: number | null
    readonly observed_at: Date
    /** What the process that calls told last. Null: nothing yet. */
    readonly told: Quota['told']
  }>
  /** By source; a text says why it is not known. */
  readonly coverage: Readonly<Record<string, Coverage | string>>
}

/** @param names the sources to tell of */
export async function statusReport(
  db: Database,
  names: readonly string[],
  coverage: StatusReport['coverage'],
): Promise<StatusReport> {
  const { limit: _, ...state } = await status(db, names, null)
  const limits = (await readQuotas(db)).map((one) => ({
    scope: one.scope,
    limit: one.limit,
    window_ms: one.windowMs,
    observed_at: new Date(one.observedAt),
    told: one.told,
  }))
  return { ...state, limits, coverage }
}

/** @returns a text where it can't be told */
export async function coverageOf(db: Database, source: Source): Promise<Coverage | string> {
  try {
    return await inTransaction(db, (tx) => count(tx, source), COVERAGE_TIMEOUT_MS)
  } catch (error) {
    if ((error as { code?: string }).code === QUERY_CANCELED)
      return `not known: counting takes longer than ${COVERAGE_TIMEOUT_MS / 1_000} s`
    throw error
  }
}
