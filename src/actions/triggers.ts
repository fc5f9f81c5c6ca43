import { sql } from 'kysely'
import type { Source } from '../sources/source-model.ts'
import { listFollowedColumns } from '../sources/triggers/columns.ts'
import {
  findFollowedTables,
  installTriggers,
  removeTriggers,
  removeTriggersOf,
} from '../sources/triggers/install.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'

export interface TriggerStatus {
  readonly table: string
  /** Columns whose changes are recorded. */
  readonly columns: readonly string[]
  /** Whether anything was changed. */
  readonly changed: boolean
  /** Whether the configuration says `follow: true`. */
  readonly followed: boolean
}

/** `create trigger` waits for writers of its table, and other statements queue behind it: time out early and retry. */
const TRIGGER_LOCK_TIMEOUT_MS = 2_000

/**
 * Installs or removes the triggers of live sync on a source's table, in one short transaction.
 * @throws SourceProblems if the role lacks the privilege; the error of Postgres if the table was locked each time
 */
export function setTriggers(
  db: Database,
  source: Source,
  action: 'install' | 'remove',
): Promise<TriggerStatus> {
  return inTransaction(db, async (tx) => {
    await sql`set local lock_timeout = ${sql.lit(TRIGGER_LOCK_TIMEOUT_MS)}`.execute(tx)
    const hasChanged = action === 'install' || (await removeTriggers(tx, source))
    if (action === 'install') await installTriggers(tx, source)
    return {
      table: source.mapping.table,
      columns: listFollowedColumns(source).map((column) => column.name),
      changed: hasChanged,
      followed: source.mapping.follow,
    }
  })
}

/** Those of some names that no source of the configuration has, and that a table still has triggers of. */
export function listLeftTriggers(db: Database, names: readonly string[]): Promise<string[]> {
  return inTransaction(db, async (tx) => {
    const left: string[] = []
    for (const name of names) if ((await findFollowedTables(tx, name)).length > 0) left.push(name)
    return left
  })
}

/** Removes the triggers of a source that left the configuration, and the changes that they recorded. */
export function removeLeftTriggers(db: Database, source: string): Promise<TriggerStatus> {
  return inTransaction(db, async (tx) => {
    await sql`set local lock_timeout = ${sql.lit(TRIGGER_LOCK_TIMEOUT_MS)}`.execute(tx)
    const [table = ''] = await findFollowedTables(tx, source)
    const changed = await removeTriggersOf(tx, source)
    return { table, columns: [], changed, followed: false }
  })
}
