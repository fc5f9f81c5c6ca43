import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isConflict, TableBusyError } from '../store/transaction.ts'
import { isTransient } from '../store/connectivity.ts'
import type { WakeSignal } from '../util/wake-signal.ts'

export interface LoopOptions {
  readonly name: string
  /** One bounded batch. @returns how much it did; 0 when there was nothing to do */
  readonly tick: () => Promise<number>
  readonly nudge: WakeSignal
  /** Ends the loop after the tick that is under way. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** The least time between two ticks that were not full, so that work gathers into batches. Milliseconds. */
  readonly paceMs?: number
  /** The longest time between two looks while there is nothing to do. Milliseconds. */
  readonly longestLookMs?: number
  /** What a full tick does: then the next follows at once. */
  readonly full?: number
}

const MIN_POLL_MS = 100
const MAX_POLL_MS = 1_000

/**
 * Does ticks until told to stop; while there is nothing to do it looks less and less often. Outlasts an outage of
 * Postgres, and other transactions that it meets: what a tick did not do is there for the next one.
 */
export async function runLoop(options: LoopOptions): Promise<void> {
  const { signal, paceMs = 0, longestLookMs = MAX_POLL_MS } = options
  const { full = Number.POSITIVE_INFINITY } = options
  const nudge = options.nudge.listen()
  let look = MIN_POLL_MS
  let outage = 0
  while (!signal.aborted) {
    let did: number
    try {
      did = await options.tick()
      outage = 0
    } catch (error) {
      if (signal.aborted && isAbort(error)) return
      const isMet = isConflict(error) || error instanceof TableBusyError
      if (!isMet && !isTransient(error)) throw error
      const ms = Math.min(5_000, 200 * 2 ** outage++)
      const what = isMet ? 'met another transaction: tried again' : 'waiting for Postgres'
      options.log.warn({ step: options.name, reason: (error as Error).message, ms }, what)
      await sleep(ms, undefined, { signal }).catch(() => {})
      continue
    }
    if (did >= full) continue
    if (did > 0) {
      look = MIN_POLL_MS
      if (paceMs > 0) await sleep(paceMs, undefined, { signal }).catch(() => {})
      continue
    }
    await nudge.wait(look, signal)
    look = Math.min(longestLookMs, look * 2)
  }
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError'
