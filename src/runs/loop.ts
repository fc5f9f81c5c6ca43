import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../util/log.ts'
import { isTransient, TimeoutCounter, isConflict, TableBusyError } from '../store/transaction.ts'
import { WakeSignal } from '../util/wake-signal.ts'

/** A loop of a process, to be started and awaited by itself. */
export interface WorkerTask {
  readonly name: string
  /** The source that it works for. Null: all. */
  readonly source: string | null
  readonly start: () => Promise<void>
}

export interface LoopOptions {
  readonly name: string
  /**
   * Does one bounded batch.
   * @returns how much it did; 0: nothing to do
   */
  readonly tick: () => Promise<number>
  /** Ends the wait of an idle loop. Default: none does. */
  readonly wakeSignal?: WakeSignal
  /** Stops the loop after the current tick. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Minimum time between two partial ticks, so that work gathers into batches. Milliseconds. */
  readonly paceMs?: number
  /** How long work may gather after a partial tick, unless the signal says that there is enough. */
  readonly gather?: { readonly ms: number; readonly enough: WakeSignal }
  /** Maximum time between two ticks while idle. Milliseconds. */
  readonly maxPollMs?: number
  /** Amount of a full tick, which is followed by the next one at once. */
  readonly fullTick?: number
}

/** A loop as a task. @param source the source that it works for; null: all */
export const loopTask = (loop: LoopOptions, source: string | null = null): WorkerTask => ({
  name: loop.name,
  source,
  start: () => runLoop(loop),
})

/** A loop that does something again and again, each time after the milliseconds that it returns. */
export const repeating = (
  loop: Pick<LoopOptions, 'name' | 'signal' | 'log'>,
  act: () => Promise<number>,
): LoopOptions => ({
  ...loop,
  tick: async () => {
    await sleep(await act(), undefined, { signal: loop.signal }).catch(() => {})
    return 1
  },
})

/** Logs that an operation waits for Postgres: the `onWait` of `retryWhileUnavailable`. An outage is logged once a process, as a trouble. */
export const logWait =
  (log: Log, context: Readonly<Record<string, unknown>>) =>
  (error: Error, ms: number): void =>
    log.debug(
      { event: 'postgres_waiting', ...context, reason: describeError(error), ms },
      'waiting for Postgres',
    )

const MIN_POLL_MS = 100
const MAX_POLL_MS = 1_000
/** Conflicts in a row that are said: a tick that has failed once or twice has its next one within a second. */
const LASTING_CONFLICTS = 3

/**
 * Ticks until aborted, less and less often while idle. Survives outages of Postgres and conflicts with other
 * transactions: the next tick picks up what this one did not do.
 */
export async function runLoop(options: LoopOptions): Promise<void> {
  const { signal, paceMs = 0, maxPollMs = MAX_POLL_MS, wakeSignal = new WakeSignal() } = options
  const { fullTick = Number.POSITIVE_INFINITY } = options
  const wakeUps = wakeSignal.listen()
  const enough = options.gather?.enough.listen()
  let pollMs = MIN_POLL_MS
  let failures = 0
  const timeouts = new TimeoutCounter()
  while (!signal.aborted) {
    let done: number
    try {
      done = await options.tick()
      failures = 0
      timeouts.reset()
    } catch (error) {
      if (signal.aborted && isAbort(error)) return
      timeouts.add(error)
      const isConflicting = isConflict(error) || error instanceof TableBusyError
      if (!isConflicting && !isTransient(error)) throw error
      const ms = Math.min(5_000, 200 * 2 ** failures++)
      const message = isConflicting ? 'conflict with another transaction; retrying' : 'waiting for Postgres'
      const event = isConflicting ? 'postgres_conflict' : 'postgres_waiting'
      // Only one that lasts is worth a warning, and one is enough.
      const level = isConflicting && failures === LASTING_CONFLICTS ? 'warn' : 'debug'
      options.log[level]({ event, step: options.name, reason: describeError(error), ms }, message)
      await sleep(ms, undefined, { signal }).catch(() => {})
      continue
    }
    if (done >= fullTick) continue
    if (done > 0) {
      pollMs = MIN_POLL_MS
      if (paceMs > 0) await sleep(paceMs, undefined, { signal }).catch(() => {})
      await enough?.wait(options.gather?.ms ?? 0, signal)
      continue
    }
    await wakeUps.wait(pollMs, signal)
    pollMs = Math.min(maxPollMs, pollMs * 2)
  }
}

/** What a step throws that waits when its signal is aborted. */
export const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError'
