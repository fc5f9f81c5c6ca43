import { setTimeout as sleep } from 'node:timers/promises'
import { type Transaction, sql } from 'kysely'
import type { Database } from './open.ts'
import type { Schema } from './schema.ts'

export type Tx = Transaction<Schema>

/** The database itself, or a transaction on it. */
export type Connection = Database | Tx

const MAX_ATTEMPTS = 5

/** What a transaction has read is no longer so: it goes again, as after a serialization failure. */
export class ConflictError extends Error {
  override readonly name = 'MetAnother'
  readonly code = '40001'
}

/**
 * A transaction that waits for its client for so long is ended by Postgres: the client is stopped, or gone without a
 * word, and holds locks that others need. None of ours ever does anything but SQL.
 */
const IDLE_TIMEOUT_MS = 30_000

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

const setTextFormsSql = sql.join(
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
  act: (tx: Tx) => Promise<T>,
  statementTimeoutMs?: number,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db
        .transaction()
        .setIsolationLevel('read committed')
        .execute(async (tx) => {
          await sql`
          select ${setTextFormsSql}, set_config('idle_in_transaction_session_timeout', ${String(IDLE_TIMEOUT_MS)}, true)
                 ${statementTimeoutMs === undefined ? sql`` : sql`, set_config('statement_timeout', ${String(Math.round(statementTimeoutMs))}, true)`}`.execute(
            tx,
          )
          return await act(tx)
        })
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !isConflict(error)) throw error
      await sleep(20 * attempt * attempt * (0.5 + Math.random()))
    }
  }
}

/**
 * Two transactions met (deadlock, serialization failure, lock not available): either could have gone on. Postgres is
 * there, so that waiting for it helps nothing; trying again does.
 */
const RETRYABLE = new Set(['40P01', '40001', '55P03'])
const QUERY_CANCELED = '57014'

const sqlStateOf = (error: unknown): string => (error as { code?: string } | null)?.code ?? ''

/** Whether a statement failed because it met another transaction. */
export const isConflict = (error: unknown): boolean =>
  error instanceof Error && RETRYABLE.has(sqlStateOf(error))

/** Longer than a person should wait for us, and no longer than Postgres waits before it looks for a deadlock. */
export const LOCK_TIMEOUT_MS = 500

/** Why a statement on a user's table was given up. */
export class TableBusyError extends Error {
  override readonly name = 'TableBusy'
  /** `locked`: another transaction holds a lock. `slow`: it took longer than it may. */
  readonly reason: 'locked' | 'slow'
  /** A function of the user's has raised it with these words. */
  readonly raisedMessage: string | null
  /** No row is at fault: the table itself is locked. */
  readonly isTableLock: boolean

  constructor(why: 'locked' | 'slow', cause: Error) {
    super(cause.message, { cause })
    this.reason = why
    const { where = '' } = cause as { where?: string }
    this.raisedMessage = RAISE_CONTEXT.test(where) ? cause.message : null
    this.isTableLock = why === 'locked' && sqlStateOf(cause) === '55P03' && where === ''
  }
}

/** The first line of an error's context, where RAISE has made the error: a true conflict comes out of a statement. */
const RAISE_CONTEXT = /^PL\/pgSQL function [^\n]* at RAISE/

/**
 * Does something on a user's table with a bound on its statements and on their waits for locks. Local to the
 * transaction, which keeps it right behind a pooler.
 * @throws TableBusy when it took too long or met another transaction
 */
export async function withTableTimeouts<T>(
  tx: Transaction<Schema>,
  timeoutMs: number,
  act: () => Promise<T>,
): Promise<T> {
  await sql`
    select set_config('lock_timeout', ${`${LOCK_TIMEOUT_MS}ms`}, true),
           set_config('fillrate.timeout_before', current_setting('statement_timeout'), true),
           set_config('statement_timeout', ${`${Math.round(timeoutMs)}ms`}, true)`.execute(tx)
  const began = performance.now()
  let did: T
  try {
    did = await act()
  } catch (error) {
    if (isConflict(error)) throw new TableBusyError('locked', error as Error)
    if (sqlStateOf(error) !== QUERY_CANCELED) throw error
    // Canceled before its time: by an administrator, which says nothing of the rows.
    throw new TableBusyError(performance.now() - began < timeoutMs ? 'locked' : 'slow', error as Error)
  }
  await sql`
    select set_config('lock_timeout', '0', true),
           set_config('statement_timeout', current_setting('fillrate.timeout_before'), true)`.execute(tx)
  return did
}
