import { sql } from 'kysely'
import { listFollowedColumns } from '../sources/triggers/columns.ts'
import { installTriggers, removeTriggers } from '../sources/triggers/install.ts'
import type { Source } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'

export interface TriggerStatus {
  readonly table: string
  /** Whose change is recorded. */
  readonly columns: readonly string[]
  /** Whether there was anything to do. */
  readonly changed: boolean
  /** Whether the configuration says `follow: true`. */
  readonly followed: boolean
}

/** A trigger waits for writers of its table, and others wait behind it: rather tried again than waited for. */
const TRIGGER_LOCK_TIMEOUT_MS = 2_000

/**
 * Puts the triggers of a sync on a source's table, or takes them off, in one short transaction.
 * @throws SourceProblems where this role may not; what Postgres says when the table was busy each time
 */
export function setTriggers(
  db: Database,
  source: Source,
  action: 'install' | 'remove',
): Promise<TriggerStatus> {
  return inTransaction(db, async (tx) => {
    await sql`set local lock_timeout = ${sql.lit(TRIGGER_LOCK_TIMEOUT_MS)}`.execute(tx)
    const changed = action === 'install' || (await removeTriggers(tx, source))
    if (action === 'install') await installTriggers(tx, source)
    return {
      table: source.mapping.table,
      columns: listFollowedColumns(source).map((column) => column.name),
      changed,
      followed: source.mapping.follow,
    }
  })
}
