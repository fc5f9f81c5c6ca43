type Priority = 'urgent' | 'normal' | 'low'

/**
 * Who waits is served in this order. A bulk call goes before the single calls of its priority: it is one call for a
 * hundred lookups, and they would hand their slots on among themselves for as long as any of them waits.
 */
const ORDER = ['urgent', 'normal bulk', 'normal', 'low bulk', 'low'] as const
type Rank = (typeof ORDER)[number]

const toRank = (priority: Priority, isBulk: boolean): Rank =>
  isBulk && priority !== 'urgent' ? `${priority} bulk` : priority

/**
 * The calls that a process may have under way at once, over all its runs. Permits say how many calls the service
 * allows; slots, how many of them wait for their answers at the same time. Who waits is served by urgency, and some
 * can be kept for syncs, so that one never waits for the slow answers of a backfill.
 */
export class PrioritySemaphore {
  readonly capacity: number
  readonly #reserved: number
  #used = 0
  readonly #waiters: Record<Rank, Set<() => void>> = {
    urgent: new Set(),
    'normal bulk': new Set(),
    normal: new Set(),
    'low bulk': new Set(),
    low: new Set(),
  }

  /** @param kept of the capacity, for syncs alone; never all of it */
  constructor(capacity: number, kept = 0) {
    this.capacity = capacity
    this.#reserved = Math.min(kept, capacity - 1)
  }

  /** How many one may take now; none while somebody more urgent waits. */
  free(priority: Priority, isBulk = false): number {
    if (!this.mayContinue(priority, isBulk)) return 0
    const room = priority === 'urgent' ? this.capacity : this.capacity - this.#reserved
    return Math.max(0, room - this.#used)
  }

  /** Whether a slot whose call is over may go on with the next: nobody more urgent waits for it. */
  mayContinue(priority: Priority, isBulk = false): boolean {
    const before = ORDER.slice(0, ORDER.indexOf(toRank(priority, isBulk)))
    return before.every((other) => this.#waiters[other].size === 0)
  }

  /** @returns how many of the wanted slots were taken */
  take(wanted: number, priority: Priority, isBulk = false): number {
    const taken = Math.min(wanted, this.free(priority, isBulk))
    this.#used += taken
    return taken
  }

  release(slots: number): void {
    if (slots === 0) return
    this.#used -= slots
    // All look again, the most urgent first: whoever finds nothing left waits again.
    for (const rank of ORDER) {
      const waiting = [...this.#waiters[rank]]
      this.#waiters[rank].clear()
      for (const wake of waiting) wake()
    }
  }

  /** Resolves when there may be a slot, or at the signal. */
  async wait(priority: Priority, signal: AbortSignal, isBulk = false): Promise<void> {
    if (signal.aborted || this.free(priority, isBulk) > 0) return
    const waiting = this.#waiters[toRank(priority, isBulk)]
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done)
        waiting.delete(done)
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      waiting.add(done)
    })
  }
}

/** A quarter is kept for syncs where any source is followed. */
export const createSlots = (
  concurrency: number,
  sources: readonly { readonly follow: boolean }[],
): PrioritySemaphore =>
  new PrioritySemaphore(concurrency, sources.some((source) => source.follow) ? Math.ceil(concurrency / 4) : 0)
