import { setTimeout as sleep } from 'node:timers/promises'
import { isConflict } from './transaction.ts'

/**
 * SQLSTATEs of a server that is away, starting, stopping or full, or that takes no writes for now (a standby, after a
 * failover): nothing is wrong with the statement.
 */
const UNAVAILABLE_STATE = /^(08...|57P..|53...|25006)$/
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

/** Whether Postgres was away, and the same statement may well succeed later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: string }).code ?? ''
  return (
    UNAVAILABLE_STATE.test(code) || UNAVAILABLE_SYSTEM.has(code) || UNAVAILABLE_MESSAGE.test(error.message)
  )
}

/** For what ends by itself after so long, as a lease does: it is given up then. In milliseconds. */
export function expiresAfter(ms: number): () => boolean {
  const end = performance.now() + ms
  return () => performance.now() > end
}

/** For what holds up a shutdown: it is given up so long after the signal. In milliseconds. */
export function expiresAfterAbort(signal: AbortSignal, ms: number): () => boolean {
  let end: number | null = null
  return () => {
    if (!signal.aborted) return false
    end ??= performance.now() + ms
    return performance.now() > end
  }
}

/**
 * Gives something back that a lease holds, unless Postgres stays away until the lease has ended by itself: a shutdown
 * must not wait for that.
 */
export async function releaseWithin(leaseMs: number, act: () => Promise<void>): Promise<void> {
  await retryWhileUnavailable(act, { giveUp: expiresAfter(leaseMs) }).catch((error: unknown) => {
    if (!isTransient(error)) throw error
  })
}

/** Tries of what meets other transactions again and again: half a minute of them, after those of `inTransaction`. */
const MAX_CONFLICTS = 20

/**
 * Does `act`, again and again while Postgres is away, up to five seconds apart, and a bounded number of times when it
 * meets other transactions. `act` must be safe to do twice: the first time may have been committed and only the answer
 * lost.
 * @param options.conflicts how often it may meet another transaction; what is paid for is tried for ever
 * @param options.onWait called before each wait for Postgres, with its length in milliseconds
 */
export async function retryWhileUnavailable<T>(
  act: () => Promise<T>,
  options: {
    readonly signal?: AbortSignal | undefined
    readonly onWait?: ((error: Error, ms: number) => void) | undefined
    readonly conflicts?: number
    /** Looked at after each failure: true ends the tries. Left out: it is tried until Postgres is back. */
    readonly giveUp?: () => boolean
  },
): Promise<T> {
  let conflicts = 0
  for (let attempt = 0; ; attempt++) {
    try {
      return await act()
    } catch (error) {
      const isAgain = isConflict(error) && conflicts++ < (options.conflicts ?? MAX_CONFLICTS)
      if ((!isAgain && !isTransient(error)) || options.signal?.aborted || options.giveUp?.()) throw error
      const ms = isAgain ? Math.min(2_000, 50 * 2 ** conflicts) : Math.min(5_000, 100 * 2 ** attempt)
      if (!isAgain) options.onWait?.(error as Error, ms)
      await sleep(ms, undefined, options.signal ? { signal: options.signal } : {})
    }
  }
}
