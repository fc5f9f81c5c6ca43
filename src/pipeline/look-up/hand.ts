import type { LeasedLookup } from '../../store/leases.ts'

/** As much is leased ahead as is asked in so long, at the pace so far. */
const AHEAD_MS = 500
const MOST_AHEAD = 500

/**
 * Lookups that are leased and not asked yet, in the order in which they were leased: so that a call that is free to be
 * made waits for no search. Where calls are few, because the limit is low or the service slow, few are held.
 */
export class Hand {
  #lookups: LeasedLookup[] = []
  /** Given out since a moment, in milliseconds. */
  #given = 0
  #since: number

  /** @param now in milliseconds, never going back */
  constructor(now: number) {
    this.#since = now
  }

  get size(): number {
    return this.#lookups.length
  }

  put(lookups: readonly LeasedLookup[]): void {
    this.#lookups.push(...lookups)
  }

  /** The next to be asked, at most so many. */
  take(most: number): LeasedLookup[] {
    const taken = this.#lookups.splice(0, most)
    this.#given += taken.length
    return taken
  }

  /** Keeps what was leased but for the first, which are asked already. @returns these */
  deal(leased: readonly LeasedLookup[], most: number): readonly LeasedLookup[] {
    const asked = leased.slice(0, most)
    this.#given += asked.length
    this.#lookups.push(...leased.slice(most))
    return asked
  }

  /** All that is left. */
  empty(): LeasedLookup[] {
    const left = this.#lookups
    this.#lookups = []
    return left
  }

  /** How many are to be leased for what is asked next; 0 as long as at least half of them are there. */
  wanting(now: number): number {
    const passed = now - this.#since
    const ahead = Math.min(MOST_AHEAD, Math.floor((this.#given / Math.max(passed, 1)) * AHEAD_MS))
    if (passed > 2 * AHEAD_MS) {
      this.#given /= 2
      this.#since += passed / 2
    }
    return this.size * 2 >= ahead ? 0 : ahead - this.size
  }
}
