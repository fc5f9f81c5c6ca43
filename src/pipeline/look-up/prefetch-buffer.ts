import type { LeasedLookup } from '../../store/lookup-leases.ts'

/** Prefetches as many lookups as are requested within this time, at the current pace. */
const PREFETCH_MS = 1_000
const MAX_PREFETCH = 500

/**
 * Lookups that are leased and not yet marked in flight, in lease order, so that a free call does not wait for a
 * query. If calls are few, because the limit is low or the service slow, few are held.
 */
export class PrefetchBuffer {
  #lookups: LeasedLookup[] = []
  /** Taken since `#since`, decaying. */
  #taken = 0
  #since: number

  /** @param now in milliseconds, monotonic */
  constructor(now: number) {
    this.#since = now
  }

  get size(): number {
    return this.#lookups.length
  }

  push(lookups: readonly LeasedLookup[]): void {
    this.#lookups.push(...lookups)
  }

  /** Takes the next lookups, up to `max`. */
  shift(max: number): LeasedLookup[] {
    const taken = this.#lookups.splice(0, max)
    this.#taken += taken.length
    return taken
  }

  /**
   * Takes the first of freshly leased lookups, which are already marked in flight, and buffers the others.
   * @returns the first `max`
   */
  splitOff(leased: readonly LeasedLookup[], max: number): readonly LeasedLookup[] {
    const started = leased.slice(0, max)
    this.#taken += started.length
    this.#lookups.push(...leased.slice(max))
    return started
  }

  /** Puts lookups back, to be taken next. */
  unshift(lookups: readonly LeasedLookup[]): void {
    this.#lookups.unshift(...lookups)
    this.#taken = Math.max(0, this.#taken - lookups.length)
  }

  /** Lookups taken per millisecond. */
  pacePerMs(now: number): number {
    return this.#taken / Math.max(now - this.#since, 1)
  }

  /** Removes and returns everything. */
  drain(): LeasedLookup[] {
    const rest = this.#lookups
    this.#lookups = []
    return rest
  }

  /** How many lookups to lease ahead; 0 while at least half of the target is buffered. */
  refillSize(now: number): number {
    const elapsedMs = now - this.#since
    const target = Math.min(MAX_PREFETCH, Math.floor(this.pacePerMs(now) * PREFETCH_MS))
    if (elapsedMs > 2 * PREFETCH_MS) {
      this.#taken /= 2
      this.#since += elapsedMs / 2
    }
    return this.size * 2 >= target ? 0 : target - this.size
  }
}
