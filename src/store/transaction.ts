import { setTimeout as sleep } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import type { Database } from './open.ts'
import type { Schema } from './schema.ts'

export type StoreTransaction = Transaction<Schema>

/** Two transactions met (deadlock, serialization failure, lock not available): either could have gone on, so this one goes again. */
const MET = new Set(['40P01', '40001', '55P03'])
const TRIES = 5

/**
 * Runs `act` in one short transaction, again when it met another one. `act` must do nothing but SQL.
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
      return await db.transaction().execute(async (tx) => {
        if (statementTimeoutMs !== undefined)
          await sql`set local statement_timeout = ${sql.lit(Math.round(statementTimeoutMs))}`.execute(tx)
        return await act(tx)
      })
    } catch (error) {
      if (attempt === TRIES || !MET.has((error as { code?: string }).code ?? '')) throw error
      await sleep(20 * attempt * attempt * (0.5 + Math.random()))
    }
  }
}
