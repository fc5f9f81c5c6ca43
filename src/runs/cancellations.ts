import type { Log } from '../util/log.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'
import { runLoop } from './loop.ts'

const POLL_INTERVAL_MS = 1_000

/**
 * Stops the leader's work for runs that are cancelled, whichever process they belong to: one batch of lookups may take
 * minutes at a low rate limit.
 */
export class Cancellations {
  readonly #deps: { readonly db: Database; readonly log: Log }
  readonly #active = new Map<number, Set<AbortController>>()

  constructor(deps: { readonly db: Database; readonly log: Log }) {
    this.#deps = deps
  }

  /** Does a batch for a run. Its signal aborts with `signal`, and when the run is cancelled. */
  async during<Result>(
    run: number,
    signal: AbortSignal,
    act: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const stop = new AbortController()
    const batches = this.#active.get(run) ?? new Set()
    this.#active.set(run, batches.add(stop))
    try {
      return await act(AbortSignal.any([signal, stop.signal]))
    } finally {
      batches.delete(stop)
      if (batches.size === 0) this.#active.delete(run)
    }
  }

  /** Watches the runs that there are batches for. */
  watch(signal: AbortSignal): Promise<void> {
    return runLoop({
      name: 'cancel',
      log: this.#deps.log,
      signal,
      maxPollMs: POLL_INTERVAL_MS,
      tick: async () => {
        if (this.#active.size === 0) return 0
        for (const run of await runs.listCancelled(this.#deps.db, [...this.#active.keys()]))
          for (const batch of this.#active.get(run) ?? []) batch.abort()
        return 0
      },
    })
  }
}
