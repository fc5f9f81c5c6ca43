import { setTimeout as sleep } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import {
  describeError,
  FillrateError,
  isExhausted,
  isRaised,
  isTransactionTimeout,
  LOCK_NOT_AVAILABLE,
  QUERY_CANCELED,
  sqlStateOf,
} from '../util/error-text.ts'
import { refusalOf } from '../domain/refusal.ts'
import { currentTimeouts, refusedAt, type Database, type Schema } from './open.ts'
import { refuseEndedSupport } from './schema-errors.ts'
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
      return await currentTimeouts.run(timeouts, () =>
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

/**
 * SQLSTATEs of a server that is unreachable, starting, stopping, out of resources, or read-only for now (a standby after
 * a failover), or that has ended a transaction because it took or paused too long: nothing is wrong with the statement.
 */
const UNAVAILABLE_STATE = /^(08...|57P..|53[0-3]..|25006|25P0[34])$/
const UNAVAILABLE_SYSTEM = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])
const UNAVAILABLE_MESSAGE =
  /connection terminated|connection went silent|timeout exceeded when trying to connect|client has encountered a connection error|not queryable/i

/** Whether Postgres was unavailable, so that the same statement may succeed later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: string }).code ?? ''
  return (
    UNAVAILABLE_STATE.test(code) || UNAVAILABLE_SYSTEM.has(code) || UNAVAILABLE_MESSAGE.test(error.message)
  )
}

/**
 * Writes to a new temporary table: unlike most writes it needs new space on the disk. Never fails.
 * @returns the SQLSTATE by which it was refused; null: it was not
 */
export async function tryWrite(db: Database): Promise<string | null> {
  try {
    await sql`create temporary table fillrate_probe on commit drop as select from generate_series(1, 8192)`.execute(
      db,
    )
    return null
  } catch (error) {
    return sqlStateOf(error) || null
  }
}

/** Transactions that Postgres ends because they took too long, one after another: about half a minute. */
const MAX_TIMEOUTS = 10

/** Postgres allows a transaction less time than it takes here, and would end it each time. */
export class TransactionTimeoutError extends FillrateError {
  override readonly name = 'TransactionTimeoutError'

  constructor(cause: Error) {
    super(
      `Postgres ended a transaction ${MAX_TIMEOUTS} times in a row because it took longer than transaction_timeout ` +
        'allows: set that to 0 for the role that Fillrate connects as (`alter role … set transaction_timeout = 0`)',
      { cause },
    )
  }
}

/** Counts the failures of one step by `transaction_timeout`, which a busy moment explains, and many in a row do not. */
export class TimeoutCounter {
  #inARow = 0

  /** @throws TransactionTimeoutError where the error is one too many */
  add(error: unknown): void {
    this.#inARow = isTransactionTimeout(error) ? this.#inARow + 1 : 0
    if (this.#inARow === MAX_TIMEOUTS) throw new TransactionTimeoutError(error as Error)
  }

  reset(): void {
    this.#inARow = 0
  }
}

/**
 * The level at which a repeated step logs an error: while Postgres is away, every step fails again and again, and the
 * process has logged that once, as a trouble.
 */
export const retryLogLevel = (error: unknown): 'debug' | 'warn' => (isTransient(error) ? 'debug' : 'warn')

/** A deadline for `giveUp`, for what ends by itself after a while, such as a lease. @param ms milliseconds from now */
export function expiresAfter(ms: number): () => boolean {
  const end = performance.now() + ms
  return () => performance.now() > end
}

/** A deadline for `giveUp` during shutdown. @param ms milliseconds after the signal */
export function expiresAfterAbort(signal: AbortSignal, ms: number): () => boolean {
  let end: number | null = null
  return () => {
    if (!signal.aborted) return false
    end ??= performance.now() + ms
    return performance.now() > end
  }
}

/** Longer than what is refused waits before it is tried again, which is up to five seconds, and than a process is without a write. */
const REFUSED_MS = 20_000
/** What refuses no takeover any more does not put it off for longer. */
const MAX_REFUSED_MS = 600_000

/**
 * When expired leases are taken over. After an outage of Postgres each one has expired, also those of living processes, which
 * renew them, and store the answers that they hold, first. So it is where Postgres answers, but takes no writes.
 */
export class TakeoverGrace {
  readonly #db: Database
  readonly #leaseMs: number
  /** When Postgres was found to answer last. */
  #answeredAt = performance.now()
  #until = Number.NEGATIVE_INFINITY
  /** When Postgres refused a takeover last. */
  #failedAt = Number.NEGATIVE_INFINITY

  constructor(db: Database, leaseMs: number) {
    this.#db = db
    this.#leaseMs = leaseMs
  }

  /** A takeover failed. */
  noteFailure(error: unknown): void {
    if (refusalOf(error) !== null) this.#failedAt = performance.now()
  }

  /** Call it when Postgres has answered, more often than leases last. @returns whether living processes may still be late */
  isRunning(): boolean {
    const now = performance.now()
    const wasAway = now - this.#answeredAt > this.#leaseMs / 2
    this.#answeredAt = now
    // Where each answer takes that long, what is dead is taken over nevertheless.
    if (wasAway && now > this.#until + this.#leaseMs) this.#until = now + this.#leaseMs
    const isRefused = now - refusedAt(this.#db) < REFUSED_MS && now - this.#failedAt < MAX_REFUSED_MS
    return isRefused || now < this.#until
  }
}

/**
 * Releases what a lease holds, unless Postgres stays unavailable until the lease has expired by itself: a shutdown must
 * not wait for that.
 */
export async function releaseWithin(leaseMs: number, act: () => Promise<void>): Promise<void> {
  await retryWhileUnavailable(act, { giveUp: expiresAfter(leaseMs) }).catch((error: unknown) => {
    if (!isTransient(error)) throw error
  })
}

/** SQLSTATEs and errors that only a server gives which was just up: it is restarting. */
const RESTARTING_CODES = new Set(['57P01', '57P02', '57P03', 'ECONNRESET', 'EPIPE'])
const RESTARTING_MS = 60_000
/** Nothing listens there: it is restarting, or the address is wrong. */
const REFUSING_MS = 10_000

/**
 * How long to wait for a server that has not been reached yet, by its error, in milliseconds. 0: not at all, because a
 * wrong host, name or password stays wrong.
 */
function startUpWaitMs(error: unknown): number {
  if (!(error instanceof Error) || !isTransient(error)) return 0
  const code = (error as { code?: string }).code ?? ''
  if (RESTARTING_CODES.has(code) || /connection terminated/i.test(error.message)) return RESTARTING_MS
  return code === 'ECONNREFUSED' ? REFUSING_MS : 0
}

/**
 * Runs `act`, which connects to a server that this process has not reached yet, until the server has restarted: as in
 * the middle of a run, but not for ever.
 * @param onWait called once, with how long it waits at most
 */
export function retryWhileStarting<T>(
  act: () => Promise<T>,
  signal: AbortSignal,
  onWait: (error: Error, ms: number) => void,
): Promise<T> {
  const began = performance.now()
  let isWaiting = false
  return retryWhileUnavailable(act, {
    giveUp: (error) => signal.aborted || performance.now() - began >= startUpWaitMs(error),
    onWait: (error) => {
      if (!isWaiting) onWait(error, startUpWaitMs(error))
      isWaiting = true
    },
  })
}

/** Retries of conflicts: about half a minute, on top of those of `inTransaction`. */
const MAX_CONFLICTS = 20

/**
 * Runs `act` until it succeeds: while Postgres is unavailable, up to five seconds apart, and a limited number of
 * times after conflicts and `transaction_timeout`. `act` must be idempotent, because an attempt may have committed
 * and only its answer been lost.
 * @param options.conflicts retries of conflicts; paid results are retried without limit, also after
 *   `transaction_timeout`
 * @param options.onWait called before each wait for Postgres, with its length in milliseconds
 */
export async function retryWhileUnavailable<T>(
  act: () => Promise<T>,
  options: {
    readonly signal?: AbortSignal | undefined
    readonly onWait?: ((error: Error, ms: number) => void) | undefined
    readonly conflicts?: number
    /** Called after each failure: true ends the retries. Default: retry until Postgres is back. */
    readonly giveUp?: (error: unknown) => boolean
  },
): Promise<T> {
  let conflicts = 0
  const timeouts = options.conflicts === Number.POSITIVE_INFINITY ? null : new TimeoutCounter()
  for (let attempt = 0; ; attempt++) {
    try {
      return await act()
    } catch (error) {
      timeouts?.add(error)
      const isAgain = isConflict(error) && conflicts++ < (options.conflicts ?? MAX_CONFLICTS)
      if ((!isAgain && !isTransient(error)) || options.signal?.aborted || options.giveUp?.(error)) throw error
      const ms = isAgain ? Math.min(2_000, 50 * 2 ** conflicts) : Math.min(5_000, 100 * 2 ** attempt)
      if (!isAgain) options.onWait?.(error as Error, ms)
      await sleep(ms, undefined, options.signal ? { signal: options.signal } : {})
    }
  }
}
