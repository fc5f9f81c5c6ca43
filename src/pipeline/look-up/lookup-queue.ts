import { randomUUID } from 'node:crypto'
import { routeEmails } from '../../domain/route.ts'
import { releaseWithin } from '../../store/connectivity.ts'
import * as store from '../../store/lookup-leases.ts'
import type { LeasedLookup } from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import type { LeaseKeeper } from './lease-keeper.ts'

type LookupQueueDeps = Pick<CallDeps, 'db' | 'policy' | 'webhookUrl'> & {
  readonly breaker: Pick<CallDeps['breaker'], 'state'>
}

/** Supplies the lookups of one run: leases them ahead, and releases those that are not requested after all. */
export class LookupQueue {
  readonly #deps: LookupQueueDeps
  readonly #run: RunningRun
  readonly #leases: LeaseKeeper
  /** How many more may be requested in all. */
  readonly #capacity: () => number
  readonly #buffer = new PrefetchBuffer(performance.now())
  #leasing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  /** The last query found nothing more. */
  #isExhausted = false

  constructor(deps: LookupQueueDeps, run: RunningRun, leases: LeaseKeeper, capacity: () => number) {
    this.#deps = deps
    this.#run = run
    this.#leases = leases
    this.#capacity = capacity
  }

  /** Buffered lookups. */
  get size(): number {
    return this.#buffer.size
  }

  /** Leased but not yet marked in flight. Pass them to `complete` or `markInFlight` before calling the service. */
  take(max: number): store.LeasedLookup[] {
    const taken = this.#buffer.shift(max)
    this.#prefetch()
    return taken
  }

  /** Returns the next lookups, marked in flight, up to `max`; none if nothing waits. */
  async markNext(max: number): Promise<readonly store.LeasedLookup[]> {
    if (this.size === 0) await this.#leasing
    if (this.#failure !== null) throw this.#failure.error
    if (this.size === 0) {
      const target = Math.min(this.#buffer.refillSize(performance.now()), this.#capacity() - max)
      // Return only what this lease marked in flight; buffered lookups are not marked yet.
      return this.#buffer.splitOff(await this.#lease(max + Math.max(0, target), max), max)
    }
    while (this.size > 0) {
      const candidates = this.take(max)
      const marked = await store.markInFlight(this.#deps.db, candidates).catch(async (error: unknown) => {
        await this.release(candidates)
        throw error
      })
      this.dropLost(candidates, marked)
      if (marked.length > 0) return marked
    }
    return []
  }

  /** Untracks lookups that are missing in `marked`: lost to another process meanwhile, or erased. */
  dropLost(lookups: readonly store.LeasedLookup[], marked: readonly store.LeasedLookup[]): void {
    const stillLeased = new Set(marked)
    for (const lookup of lookups) if (!stillLeased.has(lookup)) this.#leases.untrack(lookup.token)
  }

  /** Releases lookups that were certainly not requested. */
  async release(lookups: readonly store.LeasedLookup[]): Promise<void> {
    if (lookups.length === 0) return
    this.dropLost(lookups, [])
    await releaseWithin(LEASE_MS, () => store.releaseLookups(this.#deps.db, lookups))
  }

  /** Releases what is left. Call it when nothing takes lookups any more. */
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

  /** @param startImmediately number of lookups, from the first, that are marked in flight with the lease */
  async #lease(limit: number, startImmediately: number): Promise<store.LeasedLookup[]> {
    const { db } = this.#deps
    const token = randomUUID()
    const emails = this.#emailFilter()
    const startedAt = performance.now()
    const options = { run: this.#run.id, limit, startImmediately, token, leaseMs: LEASE_MS, emails }
    const lease = async (): Promise<store.LeasedLookup[]> => {
      // Probe with an untried lookup first: an input that always fails would keep the circuit open by itself.
      const untried =
        this.#deps.breaker.state === 'closed'
          ? []
          : await store.leaseLookups(db, { ...options, untried: true })
      return untried.length > 0 ? untried : store.leaseLookups(db, options)
    }
    const leased = await lease().catch(async (error: unknown) => {
      // The lease may be committed although the response was lost. Nothing was requested under it: release it now.
      await releaseWithin(LEASE_MS, () => store.releaseByToken(db, token))
      throw error
    })
    this.#leases.track(token, leased.length, startedAt)
    return leased
  }

  /** Which emails to lease for single calls. Other kinds never go in bulk. */
  #emailFilter(): boolean | number {
    const { bulkFrom, singly: singleCalls } = routeEmails({
      option: this.#run.options.route,
      bulkPossible: this.#deps.webhookUrl !== null,
      picking: this.#run.picking,
      minimum: this.#deps.policy.bulkMinimum,
    })
    return singleCalls === 'when_fewer' ? (bulkFrom ?? true) : singleCalls === 'now'
  }
}

/** Prefetches as many lookups as are requested within this time, at the current pace. */
const PREFETCH_MS = 500
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

  /** Removes and returns everything. */
  drain(): LeasedLookup[] {
    const rest = this.#lookups
    this.#lookups = []
    return rest
  }

  /** How many lookups to lease ahead; 0 while at least half of the target is buffered. */
  refillSize(now: number): number {
    const elapsedMs = now - this.#since
    const target = Math.min(MAX_PREFETCH, Math.floor((this.#taken / Math.max(elapsedMs, 1)) * PREFETCH_MS))
    if (elapsedMs > 2 * PREFETCH_MS) {
      this.#taken /= 2
      this.#since += elapsedMs / 2
    }
    return this.size * 2 >= target ? 0 : target - this.size
  }
}
