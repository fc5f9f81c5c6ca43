import type { Deps, TableDeps } from '../pipeline/deps.ts'
import { eraseAllDeleted } from '../runs/reconcile-deleted.ts'
import type { Source } from '../sources/source-model.ts'
import { countDeletedRows, type ErasedRows } from '../store/deleted-rows.ts'

/** What was erased of the rows that a source's table no longer has. It holds no personal data. */
export interface ForgetDeletedReport {
  readonly dry_run: boolean
  readonly source: string
  /** Deleted rows that were known. */
  readonly deleted: number
  /** Null: a dry run. Fewer rows than `deleted`: some were restored, or wait for an answer that is on its way. */
  readonly erased: ErasedRows | null
}

/**
 * Erases what is stored of a source's deleted rows, whatever `onDelete`, their age, and their share of the source: the
 * confirmation that a held erasure waits for. A row that is in its table again is restored. Suppresses nothing.
 */
export async function forgetDeleted(
  deps: TableDeps & Pick<Deps, 'log'>,
  source: Source,
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<ForgetDeletedReport> {
  const known = await countDeletedRows(deps.db, [source.name])
  const deleted = known.reduce((sum, one) => sum + one.rows, 0)
  const erased = dryRun ? null : await eraseAllDeleted(deps, source, true, signal)
  return { dry_run: dryRun, source: source.name, deleted, erased }
}
