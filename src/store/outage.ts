import { setTimeout as sleep } from 'node:timers/promises'

/**
 * SQLSTATEs of a server that is away, starting, stopping or full, that takes no writes for now (a standby, after a
 * failover), or in which two transactions met: nothing is wrong with the statement.
 */
const AWAY_STATE = /^(08...|57P..|53...|25006|40P01|40001|55P03)$/
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

/**
 * Does `act`, again and again while Postgres is away, up to five seconds apart. `act` must be safe to do twice: the
 * first time may have been committed and only the answer lost.
 * @param onWait told before each wait, with its length in milliseconds
 */
export async function throughOutage<T>(
  act: () => Promise<T>,
  options: {
    readonly signal?: AbortSignal | undefined
    readonly onWait?: ((error: Error, ms: number) => void) | undefined
  },
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await act()
    } catch (error) {
      if (!isOutage(error) || options.signal?.aborted) throw error
      const ms = Math.min(5_000, 100 * 2 ** attempt)
      options.onWait?.(error as Error, ms)
      await sleep(ms, undefined, options.signal ? { signal: options.signal } : {})
    }
  }
}
