type Priority = 'sync' | 'nightly' | 'backfill'

const ORDER: readonly Priority[] = ['sync', 'nightly', 'backfill']

/**
 * The calls that a process may have under way at once, over all its runs. Permits say how many calls the service
 * allows; slots, how many of them wait for their answers at the same time. Who waits is served by urgency, and some
 * can be kept for syncs, so that one never waits for the slow answers of a backfill.
 */
export class Slots {
  readonly capacity: number
  readonly #kept: number
  #used = 0
  readonly #waiting: Record<Priority, Set<() => void>> = {
    sync: new Set(),
    nightly: new Set(),
    backfill: new Set(),
  }

  /** @param kept of the capacity, for syncs alone; never all of it */
  constructor(capacity: number, kept = 0) {
    this.capacity = capacity
    this.#kept = Math.min(kept, capacity - 1)
  }

  /** How many one may take now; none while somebody more urgent waits. */
  free(priority: Priority): number {
    if (!this.mayKeep(priority)) return 0
    const room = priority === 'sync' ? this.capacity : this.capacity - this.#kept
    return Math.max(0, room - this.#used)
  }

  /** Whether a slot whose call is over may go on with the next: nobody more urgent waits for it. */
  mayKeep(priority: Priority): boolean {
    return ORDER.slice(0, ORDER.indexOf(priority)).every((other) => this.#waiting[other].size === 0)
  }

  /** @returns how many of the wanted slots were taken */
  take(wanted: number, priority: Priority): number {
    const taken = Math.min(wanted, this.free(priority))
    this.#used += taken
    return taken
  }

  give(slots: number): void {
    if (slots === 0) return
    this.#used -= slots
    // All look again, the most urgent first: whoever finds nothing left waits again.
    for (const priority of ORDER) {
      const waiting = [...this.#waiting[priority]]
      this.#waiting[priority].clear()
      for (const wake of waiting) wake()
    }
  }

  /** Resolves when there may be a slot, or at the signal. */
  async wait(priority: Priority, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.free(priority) > 0) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done)
        this.#waiting[priority].delete(done)
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      this.#waiting[priority].add(done)
    })
  }
}

/** A quarter is kept for syncs where any source is followed. */
export const slotsOf = (concurrency: number, sources: readonly { readonly follow: boolean }[]): Slots =>
  new Slots(concurrency, sources.some((source) => source.follow) ? Math.ceil(concurrency / 4) : 0)
