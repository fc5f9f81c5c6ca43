import * as store from '../../store/lookup-leases.ts'
import { randomUUID } from 'node:crypto'
import { routeEmails } from '../../domain/route.ts'
import { releaseWithin } from '../../store/connectivity.ts'
import type { RunningRun } from '../../store/runs.ts'
import { type CallDeps, LEASE_MS } from '../deps.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { LeasedLookup } from '../../store/lookup-leases.ts'

type LookupQueueDeps = Pick<CallDeps, 'db' | 'rules' | 'webhookUrl'> & {
  readonly breaker: Pick<CallDeps['breaker'], 'state'>
}

/** Brings the lookups of one run to the calls: leases them some way ahead, and gives back what is not asked after all. */
export class LookupQueue {
  readonly #deps: LookupQueueDeps
  readonly #run: RunningRun
  readonly #leases: LeaseKeeper
  /** How many more may be asked in all. */
  readonly #capacity: () => number
  readonly #buffer = new PrefetchBuffer(performance.now())
  #leasing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  /** Nothing more waited when it was last looked at. */
  #isExhausted = false

  constructor(deps: LookupQueueDeps, run: RunningRun, leases: LeaseKeeper, room: () => number) {
    this.#deps = deps
    this.#run = run
    this.#leases = leases
    this.#capacity = room
  }

  /** How many are there to be taken at once. */
  get size(): number {
    return this.#buffer.size
  }

  /** Leased, but nobody knows yet that they are asked: they go to `answer` or `begin` before they are. */
  take(most: number): store.LeasedLookup[] {
    const taken = this.#buffer.shift(most)
    this.#prefetch()
    return taken
  }

  /** The next that are to be asked now, at most so many; none when nothing waits. */
  async markNext(most: number): Promise<readonly store.LeasedLookup[]> {
    if (this.size === 0) await this.#leasing
    if (this.#failure !== null) throw this.#failure.error
    if (this.size === 0) {
      const ahead = Math.min(this.#buffer.refillSize(performance.now()), this.#capacity() - most)
      // Not what the hand holds by then: of that nobody knows that it is asked.
      return this.#buffer.splitOff(await this.#lease(most + Math.max(0, ahead), most), most)
    }
    while (this.size > 0) {
      const coming = this.take(most)
      const begun = await store.markInFlight(this.#deps.db, coming).catch(async (error: unknown) => {
        await this.release(coming)
        throw error
      })
      this.dropLost(coming, begun)
      if (begun.length > 0) return begun
    }
    return []
  }

  /** What is not among `begun` was lost to somebody else meanwhile, or erased. */
  dropLost(lookups: readonly store.LeasedLookup[], begun: readonly store.LeasedLookup[]): void {
    const kept = new Set(begun)
    for (const lookup of lookups) if (!kept.has(lookup)) this.#leases.untrack(lookup.token)
  }

  /** These were certainly not asked after all. */
  async release(lookups: readonly store.LeasedLookup[]): Promise<void> {
    if (lookups.length === 0) return
    this.dropLost(lookups, [])
    await releaseWithin(LEASE_MS, () => store.releaseLookups(this.#deps.db, lookups))
  }

  /** Gives back what is left. Call it when nothing takes any more. */
  async close(): Promise<void> {
    await this.#leasing
    await this.release(this.#buffer.drain())
  }

  #prefetch(): void {
    const limit = Math.min(this.#buffer.refillSize(performance.now()), this.#capacity() - this.size)
    if (this.#leasing !== null || this.#isExhausted || limit <= 0) return
    this.#leasing = this.#lease(limit, 0)
      .then(
        (leased) => {
          this.#isExhausted = leased.length < limit
          this.#buffer.push(leased)
        },
        (error: unknown) => {
          this.#failure = { error }
        },
      )
      .finally(() => {
        this.#leasing = null
      })
  }

  /** @param asking so many of them, from the first, are asked when they are leased */
  async #lease(limit: number, asking: number): Promise<store.LeasedLookup[]> {
    const { db } = this.#deps
    const token = randomUUID()
    const emails = this.#emailFilter()
    const began = performance.now()
    const options = { run: this.#run.id, limit, asking, token, leaseMs: LEASE_MS, emails }
    const lease = async (): Promise<store.LeasedLookup[]> => {
      // An input that always fails would probe again and again, and keep the circuit open by itself.
      const untried =
        this.#deps.breaker.state === 'closed'
          ? []
          : await store.leaseLookups(db, { ...options, untried: true })
      return untried.length > 0 ? untried : store.leaseLookups(db, options)
    }
    const leased = await lease().catch(async (error: unknown) => {
      // It may be committed and its answer lost: nothing was asked under it, so that it need not run out first.
      await releaseWithin(LEASE_MS, () => store.releaseByToken(db, token))
      throw error
    })
    this.#leases.track(token, leased.length, began)
    return leased
  }

  /** What never goes in bulk is leased always; emails, where they are to go singly. */
  #emailFilter(): boolean | number {
    const { bulkFrom, singly } = routeEmails({
      option: this.#run.options.route,
      bulkPossible: this.#deps.webhookUrl !== null,
      picking: this.#run.picking,
      minimum: this.#deps.rules.bulkMinimum,
    })
    return singly === 'when_fewer' ? (bulkFrom ?? true) : singly === 'now'
  }
}

/** As much is leased ahead as is asked in so long, at the pace so far. */
const PREFETCH_MS = 500
const MAX_PREFETCH = 500

/**
 * Lookups that are leased and not asked yet, in the order in which they were leased: so that a call that is free to be
 * made waits for no search. Where calls are few, because the limit is low or the service slow, few are held.
 */
export class PrefetchBuffer {
  #lookups: LeasedLookup[] = []
  /** Given out since a moment, in milliseconds. */
  #taken = 0
  #since: number

  /** @param now in milliseconds, never going back */
  constructor(now: number) {
    this.#since = now
  }

  get size(): number {
    return this.#lookups.length
  }

  push(lookups: readonly LeasedLookup[]): void {
    this.#lookups.push(...lookups)
  }

  /** The next to be asked, at most so many. */
  shift(most: number): LeasedLookup[] {
    const taken = this.#lookups.splice(0, most)
    this.#taken += taken.length
    return taken
  }

  /** Keeps what was leased but for the first, which are asked already. @returns these */
  splitOff(leased: readonly LeasedLookup[], most: number): readonly LeasedLookup[] {
    const asked = leased.slice(0, most)
    this.#taken += asked.length
    this.#lookups.push(...leased.slice(most))
    return asked
  }

  /** All that is left. */
  drain(): LeasedLookup[] {
    const left = this.#lookups
    this.#lookups = []
    return left
  }

  /** How many are to be leased for what is asked next; 0 as long as at least half of them are there. */
  refillSize(now: number): number {
    const passed = now - this.#since
    const ahead = Math.min(MAX_PREFETCH, Math.floor((this.#taken / Math.max(passed, 1)) * PREFETCH_MS))
    if (passed > 2 * PREFETCH_MS) {
      this.#taken /= 2
      this.#since += passed / 2
    }
    return this.size * 2 >= ahead ? 0 : ahead - this.size
  }
}
