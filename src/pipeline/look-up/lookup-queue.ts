import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { releaseWithin } from '../../store/connectivity.ts'
import * as store from '../../store/lookup-leases.ts'
import type { LeasedLookup } from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { LEASE_MS, routeRun, type CallDeps } from '../deps.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import { PrefetchBuffer } from './prefetch-buffer.ts'

type LookupQueueDeps = Pick<CallDeps, 'adapter' | 'db' | 'policy' | 'webhookUrl'> & {
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
  /** Resolves when some of them are marked, or given back. */
  #marked = Promise.withResolvers<void>()
  readonly #maxReady: number
  readonly #endpoint: 'person' | 'company' | null
  #leasing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  /** The last query found nothing more. */
  #isExhausted = false

  /**
   * @param maxReady how many may be marked in flight ahead of their calls
   * @param endpoint what to look up; null: all
   */
  constructor(
    deps: LookupQueueDeps,
    run: RunningRun,
    leases: LeaseKeeper,
    capacity: () => number,
    maxReady: number,
    endpoint: 'person' | 'company' | null = null,
  ) {
    this.#deps = deps
    this.#endpoint = endpoint
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
    this.dropLost(taken, marked)
    const markedAt = performance.now()
    for (const lookup of marked) this.#ready.push({ lookup, markedAt })
    this.#endMarking(taken.length)
  }

  #endMarking(lookups: number): void {
    this.#marking -= lookups
    this.#marked.resolve()
    this.#marked = Promise.withResolvers()
  }

  /** Releases what `takeAhead` returned: it could not be marked. */
  async giveBack(taken: readonly store.LeasedLookup[]): Promise<void> {
    this.#endMarking(taken.length)
    await this.release(taken)
  }

  /** Returns the next lookups, marked in flight, up to `max`; none if nothing waits. */
  async markNext(max: number): Promise<readonly store.LeasedLookup[]> {
    for (;;) {
      const ready = this.#takeReady(max)
      if (ready.length > 0) return ready
      // A write that marks enough of them ends sooner than another one would, unless Postgres is busy.
      if (this.#marking < max / 2) break
      const late = sleep(MARKED_WITHIN_MS, true)
      if ((await Promise.race([this.#marked.promise, late])) === true) break
    }
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
        this.#endMarking(ahead.length)
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
    const options = {
      run: this.#run.id,
      limit,
      startImmediately,
      token,
      leaseMs: LEASE_MS,
      emails,
      endpoint: this.#endpoint,
    }
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
    const { bulkFrom, singly: singleCalls } = routeRun(this.#deps, this.#run)
    return singleCalls === 'when_fewer' ? (bulkFrom ?? true) : singleCalls === 'now'
  }
}

/**
 * Marks as many lookups in flight ahead as are called within this time, at the current pace. Answers come in bursts of all
 * slots: at 100 ms of latency a shorter time leaves some of them without a lookup that is ready.
 */
const READY_MS = 250
/** How long slots wait for a write that marks lookups, in milliseconds. */
const MARKED_WITHIN_MS = 5
/** A mark older than this is not trusted, in milliseconds. */
const MAX_READY_MS = 1_000
