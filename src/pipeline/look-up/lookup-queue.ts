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

/**
 * Supplies the lookups of one run: leases them ahead, and releases those that are not requested after all.
 *
 * Leases and marks run beside each other and beside the calls, and a slot waits for whichever ends first. Each of them reports
 * to the queue alone: its first error is thrown by `markNext` or by `close`, which also waits for all of them.
 */
export class LookupQueue {
  readonly #deps: LookupQueueDeps
  readonly #run: RunningRun
  readonly #leases: LeaseKeeper
  /** How many more may be requested in all. */
  readonly #capacity: () => number
  readonly #buffer = new PrefetchBuffer(performance.now())
  /** Marked in flight ahead of their calls, so that a free slot does not wait for a commit. */
  #ready: { readonly lookup: LeasedLookup; readonly markedAt: number }[] = []
  /** Being marked, or released because that failed. With those that are ready never more than `#maxReady`. */
  #marking = 0
  /** Writes that do nothing but mark. */
  #ownMarks = 0
  #isLeasing = false
  /** Leases and own marks under way. They do not reject. */
  readonly #underWay = new Set<Promise<void>>()
  /** Resolves when one of them has ended, or lookups that were taken ahead are ready or released. */
  #changed = Promise.withResolvers<void>()
  readonly #maxReady: number
  readonly #endpoint: 'person' | 'company' | null
  /** The first error of a lease, a mark or a release. */
  #failure: { readonly error: unknown } | null = null
  #hasLeased = false
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
    const taken = this.#take(this.#wantedAhead())
    this.#prefetch()
    return taken
  }

  /** The next ones of the buffer, which are being marked from now on. */
  #take(max: number): store.LeasedLookup[] {
    const taken = this.#buffer.shift(max)
    this.#marking += taken.length
    return taken
  }

  /**
   * What `takeAhead` returned, and those of it that are marked in flight now. The leases of the others have expired while Postgres
   * was away, unless another process took them or they were erased. Their marks are stored, and they were not called: they are
   * released, or they would be in doubt.
   */
  addReady(taken: readonly store.LeasedLookup[], marked: readonly store.LeasedLookup[]): void {
    this.#pushReady(marked)
    this.#endMarking(marked.length)
    const held = new Set(marked)
    const lost = taken.filter((lookup) => !held.has(lookup))
    if (lost.length > 0) this.#start(() => this.giveBack(lost))
  }

  #pushReady(marked: readonly store.LeasedLookup[]): void {
    const markedAt = performance.now()
    for (const lookup of marked) this.#ready.push({ lookup, markedAt })
  }

  #endMarking(lookups: number): void {
    this.#marking -= lookups
    this.#reportChange()
  }

  #reportChange(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  /** Releases some of what `takeAhead` returned: they could not be marked. Does not reject. */
  async giveBack(taken: readonly store.LeasedLookup[]): Promise<void> {
    await this.#release(taken).catch((error: unknown) => this.#fail(error))
    // Not before: a write that has failed for its client may have marked them all the same.
    this.#endMarking(taken.length)
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
  }

  /**
   * Returns the next lookups, marked in flight, up to `max`; none if nothing waits, and nothing is being leased or marked.
   * @throws the first error of any lease or mark
   */
  async markNext(max: number): Promise<readonly store.LeasedLookup[]> {
    let hasLeased = false
    let isLate = false
    for (;;) {
      if (this.#failure !== null) throw this.#failure.error
      const ready = this.#takeReady(max)
      if (ready.length > 0) return ready
      if (this.#buffer.size > 0) {
        // A write that marks enough of them ends sooner than another one would, unless Postgres is busy.
        if (this.#marking < max / 2 || (isLate && this.#ownMarks === 0)) this.#startMarking(max)
      } else if (!this.#isLeasing) {
        if (this.#marking === 0 && hasLeased && this.#isExhausted) return []
        if (this.#marking === 0 || !this.#isExhausted) {
          hasLeased = true
          this.#leaseNow(max)
        }
      }
      // Whichever write ends first: a slot that waited for its own kept all others waiting, while those were marked.
      const isMarked = this.#changed.promise.then(() => false)
      isLate = await (this.#buffer.size === 0 || this.#ownMarks > 0
        ? isMarked
        : Promise.race([isMarked, sleep(MARKED_WITHIN_MS, true)]))
    }
  }

  /** Leases lookups of which up to `max` are called as soon as they are leased, and others ahead. */
  #leaseNow(max: number): void {
    const room = this.#maxReady - this.#ready.length - this.#marking
    const more = Math.max(0, this.#capacity() - max)
    // The slow start makes several calls when the first is answered: marked with it, they do not wait for another commit.
    const ahead = this.#hasLeased ? 0 : Math.min(SLOW_START_AHEAD, more)
    const limit = max + Math.max(ahead, Math.min(this.#refillSize(), more))
    this.#startLeasing(limit, Math.max(0, Math.min(max + ahead, room)))
  }

  /** Marks lookups in flight in a write of their own: as many as are needed now, and what is wanted ahead. */
  #startMarking(needed: number): void {
    const room = this.#maxReady - this.#ready.length - this.#marking
    const lookups = [...this.#take(Math.max(0, Math.min(needed, room))), ...this.takeAhead()]
    if (lookups.length === 0) return
    this.#ownMarks++
    this.#start(async () => {
      try {
        this.addReady(lookups, await store.markInFlight(this.#deps.db, lookups))
      } catch (error) {
        this.#fail(error)
        await this.giveBack(lookups)
      } finally {
        this.#ownMarks--
      }
    })
  }

  #start(act: () => Promise<void>): void {
    const task: Promise<void> = act()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#underWay.delete(task)
        this.#reportChange()
      })
    this.#underWay.add(task)
  }

  /**
   * Those that were marked a moment ago. The others go back to the buffer, to be marked again: a lookup that was erased
   * since must not be called.
   */
  #takeReady(max: number): store.LeasedLookup[] {
    const oldest = performance.now() - MAX_READY_MS
    const isFresh = ({ markedAt }: { readonly markedAt: number }): boolean => markedAt >= oldest
    // The first is the oldest.
    if (this.#ready[0] !== undefined && !isFresh(this.#ready[0])) {
      this.#buffer.unshift(this.#ready.filter((one) => !isFresh(one)).map((one) => one.lookup))
      this.#ready = this.#ready.filter(isFresh)
    }
    return this.#ready.splice(0, max).map((one) => one.lookup)
  }

  /** As many as are called within a moment, at the current pace: of a slow service's none. */
  #wantedAhead(): number {
    if (this.#failure !== null) return 0
    const ahead = this.#ready.length + this.#marking
    const wanted = Math.min(this.#maxReady, Math.floor(this.#buffer.pacePerMs(performance.now()) * READY_MS))
    return Math.max(0, Math.min(wanted - ahead, this.#capacity() - ahead))
  }

  /** Releases lookups that were certainly not requested. */
  async #release(lookups: readonly store.LeasedLookup[]): Promise<void> {
    if (lookups.length === 0) return
    for (const { token } of lookups) this.#leases.untrack(token)
    await releaseWithin(LEASE_MS, () => store.releaseLookups(this.#deps.db, lookups))
  }

  /**
   * Waits for what is under way, and releases what is left. Call it when nothing takes lookups any more.
   * @throws the first error of any lease, mark or release
   */
  async close(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    const left = [...this.#ready.splice(0).map((one) => one.lookup), ...this.#buffer.drain()]
    await this.#release(left).catch((error: unknown) => this.#fail(error))
    if (this.#failure !== null) throw this.#failure.error
  }

  /**
   * How many to lease ahead. At first the pace is not known, and a few round trips of calls are leased: each of the first ones
   * would lease for itself, while the slow start waits for it.
   */
  #refillSize(): number {
    const size = this.#buffer.refillSize(performance.now())
    return this.#hasLeased ? size : Math.max(size, FIRST_LEASES_PER_SLOT * this.#maxReady)
  }

  #prefetch(): void {
    const held = this.#buffer.size + this.#ready.length + this.#marking
    const limit = Math.min(this.#refillSize(), this.#capacity() - held)
    if (this.#isLeasing || this.#isExhausted || this.#failure !== null || limit <= 0) return
    this.#startLeasing(limit, 0)
  }

  #startLeasing(limit: number, startImmediately: number): void {
    this.#isLeasing = true
    this.#marking += startImmediately
    this.#start(async () => {
      try {
        const leased = await this.#lease(limit, startImmediately)
        this.#hasLeased = true
        this.#isExhausted = leased.length < limit
        // Only these are marked in flight; buffered lookups are not yet.
        this.#pushReady(this.#buffer.splitOff(leased, startImmediately))
      } finally {
        this.#marking -= startImmediately
        this.#isLeasing = false
      }
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
      this.#fail(error)
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
/** Lookups that the first lease marks in flight beside those that are called at once. */
const SLOW_START_AHEAD = 2
/** Lookups for each slot that the first lease takes ahead. */
const FIRST_LEASES_PER_SLOT = 2
/** How long slots wait for a write that marks lookups, in milliseconds. */
const MARKED_WITHIN_MS = 5
/** A mark older than this is not trusted, in milliseconds. */
const MAX_READY_MS = 1_000
