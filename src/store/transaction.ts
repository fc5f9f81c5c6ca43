import { setTimeout as sleep } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import { describeError, FillrateError } from '../util/error-text.ts'
import {
  isExhausted,
  isRaised,
  isTransactionTimeout,
  LOCK_NOT_AVAILABLE,
  QUERY_CANCELED,
  sqlStateOf,
} from '../util/sqlstates.ts'
import { type Database, transactionTimeouts } from './open.ts'
import { refuseEndedSupport } from './schema-errors.ts'
import type { Schema } from './schema.ts'
import { END_LOCK_TIMEOUT } from './sql.ts'

export type Tx = Transaction<Schema>

/** The database itself, or a transaction on it. */
export type Connection = Database | Tx

const MAX_ATTEMPTS = 5

/** What a transaction has read is outdated: it is retried, as after a serialization failure. */
export class ConflictError extends FillrateError {
  override readonly name = 'ConflictError'
  readonly code = '40001'
}

/**
 * Runs `act` in one short transaction, and again after a conflict. `act` must do nothing but SQL. Always READ COMMITTED:
 * the reads of a SERIALIZABLE transaction make users' commits fail.
 * @param statementTimeoutMs bounds every statement in it; set for this transaction only, because a session setting would
 *   stay behind in a pooled connection
 * @param lockTimeoutMs bounds every wait for a lock likewise
 */
export async function inTransaction<T>(
  db: Database,
  act: (tx: Tx) => Promise<T>,
  statementTimeoutMs?: number,
  lockTimeoutMs?: number,
): Promise<T> {
  const timeouts = { statement: statementTimeoutMs, lock: lockTimeoutMs }
  for (let attempt = 1; ; attempt++) {
    let failure: unknown = null
    const actOnce = (tx: Tx): Promise<T> =>
      act(tx).catch((error: unknown) => {
        failure = error
        throw error
      })
    try {
      return await transactionTimeouts.run(timeouts, () =>
        db.transaction().setIsolationLevel('read committed').execute(actOnce),
      )
    } catch (error) {
      // The rollback fails too where the error has closed the connection, and says only that.
      const cause = failure ?? error
      if (attempt === MAX_ATTEMPTS || !isConflict(cause)) throw cause
      await sleep(20 * attempt * attempt * (0.5 + Math.random()))
    }
  }
}

/**
 * Retryable conflicts: deadlock, serialization failure, lock timeout. Postgres is available, so retrying helps and
 * waiting for it does not.
 */
const RETRYABLE = new Set(['40P01', '40001', LOCK_NOT_AVAILABLE])

/** Whether a statement failed because of a conflict with another transaction. */
export const isConflict = (error: unknown): boolean =>
  error instanceof Error && RETRYABLE.has(sqlStateOf(error))

/** Longer than a user should wait for us, and not longer than `deadlock_timeout`. */
export const LOCK_TIMEOUT_MS = 500

/** A statement on a user's table was given up. */
export class TableBusyError extends FillrateError {
  override readonly name = 'TableBusyError'
  /** `locked`: another transaction holds a lock. `slow`: it exceeded its timeout. `exhausted`: the server lacks resources. */
  readonly reason: 'locked' | 'slow' | 'exhausted'
  /** A function of the user's has raised the error. */
  readonly isRaised: boolean
  /** The table itself is locked, not a row. */
  readonly isTableLock: boolean

  constructor(why: 'locked' | 'slow' | 'exhausted', cause: Error) {
    super(describeError(cause), { cause })
    this.reason = why
    const { where = '' } = cause as { where?: string }
    this.isRaised = isRaised(cause)
    this.isTableLock = why === 'locked' && sqlStateOf(cause) === LOCK_NOT_AVAILABLE && where === ''
  }
}

/**
 * Runs `act` on a user's table with a timeout for each statement and for waits for locks. Local to the transaction, and
 * so right behind a pooler.
 * @param timeoutMs of each statement
 * @throws TableBusyError after a timeout or a conflict
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
  const did = await guardTable(timeoutMs, act)
  await sql`
    select set_config('lock_timeout', '0', true),
           set_config('statement_timeout', current_setting('fillrate.timeout_before'), true)`.execute(tx)
  return did
}

/**
 * Runs what a transaction does on a user's table.
 * @param isEndedByNext whether the next statement, if there is one, ends the wait for locks itself (`END_LOCK_TIMEOUT`) and needs the
 *   same timeout; default: a statement of its own ends both
 */
export type OnTable = <T>(part: () => Promise<T>, isEndedByNext?: (did: T) => boolean) => Promise<T>

/**
 * Runs a transaction that begins on a user's table, with the timeouts for it: `withTableTimeouts` would send them as a
 * statement of their own.
 * @param act gets `onTable`, to be called once, for what is done on the table; whatever is before it waits for no lock
 * @param timeouts of each statement on the table, and of those after it, in milliseconds
 */
export function inTableTransaction<T>(
  db: Database,
  act: (tx: Tx, onTable: OnTable) => Promise<T>,
  { tableMs, laterMs }: { readonly tableMs: number; readonly laterMs: number },
): Promise<T> {
  const begin = (tx: Tx): Promise<T> =>
    act(tx, async (part, isEndedByNext = () => false) => {
      const did = await guardTable(tableMs, part)
      if (!isEndedByNext(did))
        await sql`
        select ${END_LOCK_TIMEOUT}, set_config('statement_timeout', ${String(Math.round(laterMs))}, true)`.execute(
          tx,
        )
      return did
    })
  return inTransaction(db, begin, tableMs, LOCK_TIMEOUT_MS).catch((error: unknown) => {
    // Postgres bounds the time of whole transactions (`transaction_timeout`, from 17 on), and has closed the connection.
    if (isTransactionTimeout(error)) throw new TableBusyError('slow', error as Error)
    throw error
  })
}

/** @throws TableBusyError after a timeout or a conflict */
async function guardTable<T>(timeoutMs: number, act: () => Promise<T>): Promise<T> {
  const began = performance.now()
  try {
    return await act()
  } catch (error) {
    if (isConflict(error)) throw new TableBusyError('locked', error as Error)
    if (isExhausted(error)) throw new TableBusyError('exhausted', error as Error)
    if (isTransactionTimeout(error)) throw new TableBusyError('slow', error as Error)
    if (sqlStateOf(error) !== QUERY_CANCELED) throw error
    // Canceled early: by an administrator, which says nothing about the rows.
    throw new TableBusyError(performance.now() - began < timeoutMs ? 'locked' : 'slow', error as Error)
  }
}

/**
 * Stores that a process or a run lives. A migration that ends the support of this version either sees it and is refused, or
 * is seen here: it locks the tables of both, so that `store` waits for its end.
 * @throws UnusableSchemaError, and nothing is stored
 */
export const whileSupported = <T>(db: Database, store: (tx: Tx) => Promise<T>): Promise<T> =>
  inTransaction(db, async (tx) => {
    const stored = await store(tx)
    const { rows } = await sql<{ name: string }>`select name from fillrate.migrations`.execute(tx)
    refuseEndedSupport(rows.map(({ name }) => name))
    return stored
  })
