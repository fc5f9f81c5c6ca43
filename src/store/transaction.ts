import { setTimeout as sleep } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import { isConflict } from './conflict.ts'
import type { Database } from './open.ts'
import type { Schema } from './schema.ts'

export type StoreTransaction = Transaction<Schema>

const TRIES = 5

/** What a transaction has read is no longer so: it goes again, as after a serialization failure. */
export class MetAnother extends Error {
  override readonly name = 'MetAnother'
  readonly code = '40001'
}

/**
 * A transaction that waits for its client for so long is ended by Postgres: the client is stopped, or gone without a
 * word, and holds locks that others need. None of ours ever does anything but SQL.
 */
const ABANDONED_MS = 30_000

/**
 * How values are written as text, in every transaction alike and whatever the database or the role is set to: what one
 * run keeps of a cell, a later one holds against it and gives back. Of DateStyle only the form; the order of day and
 * month, and TimeZone, stay what the user's expressions were written for.
 */
const TEXT_FORMS = {
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  extra_float_digits: '1',
  bytea_output: 'hex',
}

const setTextForms = sql.join(
  Object.entries(TEXT_FORMS).map(
    ([name, value]) => sql`set_config(${sql.lit(name)}, ${sql.lit(value)}, true)`,
  ),
)

/**
 * Runs `act` in one short transaction, again when it met another one. `act` must do nothing but SQL. At READ COMMITTED,
 * whatever the database is set to: what a SERIALIZABLE transaction has read makes users' commits fail.
 * @param statementTimeoutMs bounds every statement in it; set for this transaction alone, because a session
 *   setting would stay behind in a pooled connection
 */
export async function inTransaction<T>(
  db: Database,
  act: (tx: StoreTransaction) => Promise<T>,
  statementTimeoutMs?: number,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db
        .transaction()
        .setIsolationLevel('read committed')
        .execute(async (tx) => {
          await sql`
          select ${setTextForms}, set_config('idle_in_transaction_session_timeout', ${String(ABANDONED_MS)}, true)
                 ${statementTimeoutMs === undefined ? sql`` : sql`, set_config('statement_timeout', ${String(Math.round(statementTimeoutMs))}, true)`}`.execute(
            tx,
          )
          return await act(tx)
        })
    } catch (error) {
      if (attempt === TRIES || !isConflict(error)) throw error
      await sleep(20 * attempt * attempt * (0.5 + Math.random()))
    }
  }
}
