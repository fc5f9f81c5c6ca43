import { setTimeout as sleep } from 'node:timers/promises'
import { isConflict } from './conflict.ts'

/**
 * SQLSTATEs of a server that is away, starting, stopping or full, or that takes no writes for now (a standby, after a
 * failover): nothing is wrong with the statement.
 */
const AWAY_STATE = /^(08...|57P..|53...|25006)$/
const AWAY_SYSTEM = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])
const AWAY_MESSAGE =
  /connection terminated|connection went silent|timeout exceeded when trying to connect|client has encountered a connection error|not queryable/i

/** Whether Postgres was away, and the same statement may well succeed later. */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: string }).code ?? ''
  return AWAY_STATE.test(code) || AWAY_SYSTEM.has(code) || AWAY_MESSAGE.test(error.message)
}

/** For what ends by itself after so long, as a lease does: it is given up then. In milliseconds. */
export function afterMs(ms: number): () => boolean {
  const end = performance.now() + ms
  return () => performance.now() > end
}

/** For what holds up a shutdown: it is given up so long after the signal. In milliseconds. */
export function afterAbort(signal: AbortSignal, ms: number): () => boolean {
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
export async function giveBackWithin(leaseMs: number, act: () => Promise<void>): Promise<void> {
  await throughOutage(act, { giveUp: afterMs(leaseMs) }).catch((error: unknown) => {
    if (!isOutage(error)) throw error
  })
}

/** Tries of what meets other transactions again and again: half a minute of them, after those of `inTransaction`. */
const CONFLICTS = 20

/**
 * Does `act`, again and again while Postgres is away, up to five seconds apart, and a bounded number of times when it
 * meets other transactions. `act` must be safe to do twice: the first time may have been committed and only the answer
 * lost.
 * @param options.conflicts how often it may meet another transaction; what is paid for is tried for ever
 * @param options.onWait called before each wait for Postgres, with its length in milliseconds
 */
export async function throughOutage<T>(
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
      const isAgain = isConflict(error) && conflicts++ < (options.conflicts ?? CONFLICTS)
      if ((!isAgain && !isOutage(error)) || options.signal?.aborted || options.giveUp?.()) throw error
      const ms = isAgain ? Math.min(2_000, 50 * 2 ** conflicts) : Math.min(5_000, 100 * 2 ** attempt)
      if (!isAgain) options.onWait?.(error as Error, ms)
      await sleep(ms, undefined, options.signal ? { signal: options.signal } : {})
    }
  }
}
