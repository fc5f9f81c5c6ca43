import { sql } from 'kysely'
import { followedColumns } from '../sources/follow/columns.ts'
import { installFollow, removeFollow } from '../sources/follow/install.ts'
import type { Source } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'

export interface Following {
  readonly table: string
  /** Whose change is recorded. */
  readonly columns: readonly string[]
  /** Whether there was anything to do. */
  readonly changed: boolean
  /** Whether the configuration says `follow: true`. */
  readonly followed: boolean
}

/** A trigger waits for writers of its table, and others wait behind it: rather tried again than waited for. */
const LOCK_MS = 2_000

/**
 * Puts the triggers of a sync on a source's table, or takes them off, in one short transaction.
 * @throws SourceProblems where this role may not; what Postgres says when the table was busy each time
 */
export function changeFollowing(
  db: Database,
  source: Source,
  action: 'install' | 'remove',
): Promise<Following> {
  return inTransaction(db, async (tx) => {
    await sql`set local lock_timeout = ${sql.lit(LOCK_MS)}`.execute(tx)
    const changed = action === 'install' || (await removeFollow(tx, source))
    if (action === 'install') await installFollow(tx, source)
    return {
      table: source.mapping.table,
      columns: followedColumns(source).map((column) => column.name),
      changed,
      followed: source.mapping.follow,
    }
  })
}
