import type { Priority } from '../../domain/run.ts'

/**
 * Waiters are served in this order. A bulk call precedes the single calls of its priority: it is one call for a
 * hundred lookups, and single calls would keep passing their slots among themselves.
 */
const ORDER = ['urgent', 'normal bulk', 'normal', 'low bulk', 'low'] as const
type Rank = (typeof ORDER)[number]

const toRank = (priority: Priority, isBulk: boolean): Rank =>
  isBulk && priority !== 'urgent' ? `${priority} bulk` : priority

/** Bytes of answers that may wait to be stored. */
const MAX_UNSTORED_BYTES = 8 * 1024 * 1024

/**
 * Limits the concurrent calls of a process, over all its runs: permits bound the calls that the service allows,
 * slots the calls that wait for a response. Waiters are served by urgency, and some slots are reserved for live
 * sync, which never waits for a backfill.
 *
 * A slot is free when its answer arrives: until it is stored, a call would wait for a commit, and batches would be
 * small. A crash also loses answers that wait to be stored, so the slots bound their number, and a limit their
 * bytes.
 */
export class PrioritySemaphore {
  readonly capacity: number
  readonly #reserved: number
  #used = 0
  /** Answers that wait to be stored, and their bytes. */
  #unstored = 0
  #unstoredBytes = 0
  readonly #waiters: Record<Rank, Set<() => void>> = {
    urgent: new Set(),
    'normal bulk': new Set(),
    normal: new Set(),
    'low bulk': new Set(),
    low: new Set(),
  }

  /** @param reserved slots for live sync alone; never all of them */
  constructor(capacity: number, reserved = 0) {
    this.capacity = capacity
    this.#reserved = Math.min(reserved, capacity - 1)
  }

  /** Slots that this priority may take now; 0 while a more urgent one waits. */
  free(priority: Priority, isBulk = false): number {
    if (!this.mayContinue(priority, isBulk)) return 0
    const room = priority === 'urgent' ? this.capacity : this.capacity - this.#reserved
    return Math.max(0, room - this.#used)
  }

  /** Whether a finished call's slot may be reused at once: nothing more urgent waits. */
  mayContinue(priority: Priority, isBulk = false): boolean {
    const own = toRank(priority, isBulk)
    for (const rank of ORDER) {
      if (rank === own) return true
      if (this.#waiters[rank].size > 0) return false
    }
    return true
  }

  /** @returns how many slots were taken */
  take(wanted: number, priority: Priority, isBulk = false): number {
    const taken = Math.min(wanted, this.free(priority, isBulk))
    this.#used += taken
    return taken
  }

  /**
   * The call of a slot was answered. Its slot is free at once, unless too much waits to be stored already: then it is kept
   * until the answer is stored.
   * @returns to be called when the answer is stored, or given up
   */
  onAnswer(bytes: number): () => void {
    const isFreed = this.#unstored < this.capacity && this.#unstoredBytes + bytes <= MAX_UNSTORED_BYTES
    if (isFreed) {
      this.#unstored++
      this.#unstoredBytes += bytes
      this.release(1)
      return () => {
        this.#unstored--
        this.#unstoredBytes -= bytes
      }
    }
    return () => this.release(1)
  }

  release(slots: number): void {
    if (slots === 0) return
    this.#used -= slots
    // Wake all, the most urgent first; a waiter that finds no slot waits again.
    for (const rank of ORDER) {
      if (this.#waiters[rank].size === 0) continue
      const waiting = [...this.#waiters[rank]]
      this.#waiters[rank].clear()
      for (const wake of waiting) wake()
    }
  }

  /** Resolves when a slot may be free, or on abort. */
  async wait(priority: Priority, signal: AbortSignal, isBulk = false): Promise<void> {
    if (signal.aborted || this.free(priority, isBulk) > 0) return
    const waiting = this.#waiters[toRank(priority, isBulk)]
    await new Promise<void>((resolve) => {
      const finish = (): void => {
        signal.removeEventListener('abort', finish)
        waiting.delete(finish)
        resolve()
      }
      signal.addEventListener('abort', finish, { once: true })
      waiting.add(finish)
    })
  }
}

/** Reserves a quarter for live sync if any source uses it. */
export const createSlots = (
  concurrency: number,
  sources: readonly { readonly follow: boolean }[],
): PrioritySemaphore =>
  new PrioritySemaphore(concurrency, sources.some((source) => source.follow) ? Math.ceil(concurrency / 4) : 0)
