import { FillrateError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { isTransactionTimeout, sqlStateOf } from '../util/sqlstates.ts'
import type { Database } from './open.ts'
import { isConflict } from './transaction.ts'

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
export class TransactionTimeouts {
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

/**
 * When expired leases are taken over. After an outage of Postgres each one has expired, also those of living processes, which
 * renew them first.
 */
export class TakeoverGrace {
  readonly #leaseMs: number
  /** When Postgres was found to answer last. */
  #answeredAt = performance.now()
  #until = Number.NEGATIVE_INFINITY

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs
  }

  /** Call it when Postgres has answered, more often than leases last. @returns whether living processes may still be late */
  isRunning(): boolean {
    const now = performance.now()
    const wasAway = now - this.#answeredAt > this.#leaseMs / 2
    this.#answeredAt = now
    // Where each answer takes that long, what is dead is taken over nevertheless.
    if (wasAway && now > this.#until + this.#leaseMs) this.#until = now + this.#leaseMs
    return now < this.#until
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
 * Runs `act` until it succeeds while Postgres is unavailable, up to five seconds apart, and a limited number of times
 * after conflicts with other transactions and after `transaction_timeout`. `act` must be idempotent: the first attempt may have committed and only its
 * answer been lost.
 * @param options.conflicts retries of conflicts; paid results are retried without limit, also after `transaction_timeout`
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
  const timeouts = options.conflicts === Number.POSITIVE_INFINITY ? null : new TransactionTimeouts()
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
