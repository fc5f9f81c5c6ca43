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
  /** Marked in flight ahead of their calls, so that a free slot does not wait for a commit. */
  #ready: { readonly lookup: LeasedLookup; readonly markedAt: number }[] = []
  /** Being marked ahead. */
  #marking = 0
  readonly #maxReady: number
  #leasing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  /** The last query found nothing more. */
  #isExhausted = false

  /** @param maxReady how many may be marked in flight ahead of their calls */
  constructor(
    deps: LookupQueueDeps,
    run: RunningRun,
    leases: LeaseKeeper,
    capacity: () => number,
    maxReady: number,
  ) {
    this.#deps = deps
    this.#maxReady = maxReady
    this.#run = run
    this.#leases = leases
    this.#capacity = capacity
  }

  /**
   * Leased lookups that should be marked in flight with the next write, so that the next calls find them ready. To be
   * returned through `addReady` or `giveBack`.
   */
  takeAhead(): store.LeasedLookup[] {
    const taken = this.#buffer.shift(this.#wantedAhead())
    this.#marking += taken.length
    this.#prefetch()
    return taken
  }

  /** What `takeAhead` returned, and those of it that are marked in flight now. */
  addReady(taken: readonly store.LeasedLookup[], marked: readonly store.LeasedLookup[]): void {
    this.#marking -= taken.length
    this.dropLost(taken, marked)
    const markedAt = performance.now()
    for (const lookup of marked) this.#ready.push({ lookup, markedAt })
  }

  /** Releases what `takeAhead` returned: it could not be marked. */
  async giveBack(taken: readonly store.LeasedLookup[]): Promise<void> {
    this.#marking -= taken.length
    await this.release(taken)
  }

  /** Returns the next lookups, marked in flight, up to `max`; none if nothing waits. */
  async markNext(max: number): Promise<readonly store.LeasedLookup[]> {
    const ready = this.#takeReady(max)
    if (ready.length > 0) return ready
    if (this.#buffer.size === 0) await this.#leasing
    if (this.#failure !== null) throw this.#failure.error
    if (this.#buffer.size === 0) {
      const target = Math.min(this.#buffer.refillSize(performance.now()), this.#capacity() - max)
      // Return only what this lease marked in flight; buffered lookups are not marked yet.
      return this.#buffer.splitOff(await this.#lease(max + Math.max(0, target), max), max)
    }
    while (this.#buffer.size > 0) {
      const candidates = this.#buffer.shift(max)
      const ahead = this.takeAhead()
      const all = [...candidates, ...ahead]
      const marked = await store.markInFlight(this.#deps.db, all).catch(async (error: unknown) => {
        this.#marking -= ahead.length
        await this.release(all)
        throw error
      })
      this.dropLost(candidates, marked)
      const isMarked = new Set(marked)
      this.addReady(
        ahead,
        ahead.filter((one) => isMarked.has(one)),
      )
      const next = candidates.filter((one) => isMarked.has(one))
      if (next.length > 0) return next
      const replacements = this.#takeReady(max)
      if (replacements.length > 0) return replacements
    }
    return []
  }

  /**
   * Those that were marked a moment ago. The others go back to the buffer, to be marked again: a lookup that was erased
   * since must not be called.
   */
  #takeReady(max: number): store.LeasedLookup[] {
    const oldest = performance.now() - MAX_READY_MS
    const isFresh = ({ markedAt }: { readonly markedAt: number }): boolean => markedAt >= oldest
    if (!this.#ready.every(isFresh)) {
      this.#buffer.unshift(this.#ready.filter((one) => !isFresh(one)).map((one) => one.lookup))
      this.#ready = this.#ready.filter(isFresh)
    }
    return this.#ready.splice(0, max).map((one) => one.lookup)
  }

  /** As many as are called within a moment, at the current pace: of a slow service's none. */
  #wantedAhead(): number {
    const ahead = this.#ready.length + this.#marking
    const wanted = Math.min(this.#maxReady, Math.floor(this.#buffer.pacePerMs(performance.now()) * READY_MS))
    return Math.max(0, Math.min(wanted - ahead, this.#capacity() - ahead))
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
    await this.release([...this.#ready.splice(0).map((one) => one.lookup), ...this.#buffer.drain()])
  }

  #prefetch(): void {
    const held = this.#buffer.size + this.#ready.length + this.#marking
    const limit = Math.min(this.#buffer.refillSize(performance.now()), this.#capacity() - held)
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

/**
 * Marks as many lookups in flight ahead as are called within this time, at the current pace. Answers come in bursts of all
 * slots: at 100 ms of latency a shorter time left most of them without a lookup that is ready.
 */
const READY_MS = 120
/** A mark older than this is not trusted, in milliseconds. */
const MAX_READY_MS = 1_000

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
