import * as store from '../../store/lookup-leases.ts'
import { randomUUID } from 'node:crypto'
import { releaseWithin, retryLogLevel } from '../../store/transaction.ts'
import type { SingleEndpoint } from '../../domain/spend.ts'
import type { LeasedLookup, LeaseOptions } from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { boundingOf, LEASE_MS, routeRun, type CallDeps } from '../deps.ts'
import { describeError } from '../../util/error-text.ts'

type LookupQueueDeps = Pick<CallDeps, 'adapter' | 'db' | 'policy' | 'service' | 'webhookUrl'> & {
  readonly breaker: Pick<CallDeps['breaker'], 'state'>
}

interface LookupQueueOptions {
  /** How many more lookups may be called in all. */
  readonly capacity: () => number
  /** How many may be ready. */
  readonly maxReady: number
  /** Only lookups of people or only of companies. Null: both. */
  readonly endpoint: SingleEndpoint | null
}

/** A ready lookup older than this is released, in milliseconds: one that was erased since must not be called. */
const MAX_READY_MS = 1_000

/**
 * Supplies the lookups of one run to its calls.
 *
 *     pending ──lease──▶ ready ──next──▶ called
 *        ▲                 │
 *        └──── release ────┘  after a second, and at the end
 *
 * A slot that finds none ready leases, at the cost of a round trip and a commit; from then on the statements that
 * store answers lease ahead (`planAhead`). One lease is under way at a time: two would wait for each other's lock
 * of the run's queue. From its lease to its answer a lookup is in doubt if the process dies.
 */
export class LookupQueue {
  readonly #deps: LookupQueueDeps
  readonly #run: RunningRun
  readonly #leases: LeaseKeeper
  readonly #options: LookupQueueOptions
  #ready: { readonly lookup: LeasedLookup; readonly leasedAt: number }[] = []
  /** How many are to be ready. */
  #ahead = 0
  /** The last one that was leased, by its identifier: what a claim has left before it is not read again until it finds no more behind. */
  #after = 0
  /** Resolves when the lease that is under way has ended; null: none is. */
  #leasing: PromiseWithResolvers<void> | null = null
  /** The last lease found nothing more. */
  #isExhausted = false
  readonly #releases = new Set<Promise<unknown>>()
  /** Leases beside the calls. They do not reject. */
  readonly #underWay = new Set<Promise<unknown>>()
  /** The first error of a release. */
  #failure: { readonly error: unknown } | null = null

  constructor(deps: LookupQueueDeps, run: RunningRun, leases: LeaseKeeper, options: LookupQueueOptions) {
    this.#deps = deps
    this.#run = run
    this.#leases = leases
    this.#options = options
  }

  /**
   * Returns the next lookups to call, up to `max`; none if nothing waits.
   * @throws the error of a lease or a release
   */
  async next(max: number): Promise<readonly LeasedLookup[]> {
    for (;;) {
      await Promise.all(this.#releases)
      if (this.#failure !== null) throw this.#failure.error
      const ready = this.#takeReady(max)
      if (ready.length > 0) {
        if (this.#run.isBounded) this.#leaseAhead()
        return ready
      }
      if (this.#releases.size > 0) continue
      if (this.#leasing !== null) {
        // What was leased beside the calls was not enough.
        if (this.#run.isBounded) this.#growAhead(max)
        await this.#leasing.promise
      } else if ((await this.#leaseNow(max)) === 0) return []
    }
  }

  /** What a statement that stores answers is to lease beside; null: nothing. To be followed by `addLeased` or `giveUp`. */
  planAhead(): LeaseOptions | null {
    if (this.#run.isBounded || !this.#mayLeaseAhead()) return null
    this.#leasing = Promise.withResolvers()
    return this.#plan(this.#lacking())
  }

  /** What was leased by the plan. @param since a moment before it was sent, by `performance.now()` */
  addLeased(plan: LeaseOptions, leased: readonly LeasedLookup[], since: number): void {
    this.#add(plan, leased, since)
    this.#endLeasing()
  }

  /** The statement has failed for its client, and may have leased all the same: nothing was called, and all is released. */
  giveUp({ token }: LeaseOptions): void {
    this.#release(() => store.releaseByToken(this.#deps.db, token))
    this.#endLeasing()
  }

  /** Waits for releases, and releases what is left. Call it when nothing takes lookups any more. @throws the error of a release */
  async close(): Promise<void> {
    await Promise.all(this.#underWay)
    this.#releaseLookups(this.#ready.splice(0).map(({ lookup }) => lookup))
    await Promise.all(this.#releases)
    if (this.#failure !== null) throw this.#failure.error
  }

  /** How many more are to be ready. */
  #lacking(): number {
    return Math.min(this.#ahead, this.#options.capacity()) - this.#ready.length
  }

  #mayLeaseAhead(): boolean {
    const isIdle = this.#leasing === null && !this.#isExhausted && this.#failure === null
    return isIdle && this.#lacking() > 0 && this.#deps.breaker.state === 'closed'
  }

  /** The leases of a run with a budget wait for a lock, which no answer is to wait for: they are made beside the calls. */
  #leaseAhead(): void {
    const lacking = this.#lacking()
    if (lacking < this.#ahead / 2 || !this.#mayLeaseAhead()) return
    this.#keep(this.#underWay, this.#leaseOnly(lacking))
  }

  #endLeasing(): void {
    this.#leasing?.resolve()
    this.#leasing = null
  }

  #takeReady(max: number): LeasedLookup[] {
    const oldest = performance.now() - MAX_READY_MS
    const firstFresh = this.#ready.findIndex(({ leasedAt }) => leasedAt >= oldest)
    const stale = this.#ready.splice(0, firstFresh === -1 ? this.#ready.length : firstFresh)
    if (stale.length > 0) {
      // More were ready than are called in this time.
      this.#ahead = 0
      this.#releaseLookups(stale.map(({ lookup }) => lookup))
    }
    return this.#ready.splice(0, max).map(({ lookup }) => lookup)
  }

  #growAhead(more: number): void {
    this.#ahead = Math.min(this.#options.maxReady, this.#ahead + more)
  }

  /** @returns how many were leased */
  async #leaseNow(max: number): Promise<number> {
    const { maxReady, capacity } = this.#options
    this.#growAhead(max)
    const limit = Math.min(maxReady, max + Math.max(0, Math.min(this.#ahead, capacity() - max)))
    const isFromStart = this.#after === 0
    const leased = await this.#leaseOnly(limit)
    return leased > 0 || isFromStart ? leased : this.#leaseOnly(limit)
  }

  async #leaseOnly(limit: number): Promise<number> {
    const plan = this.#plan(limit)
    this.#leasing = Promise.withResolvers()
    const since = performance.now()
    try {
      const leased = await this.#lease(plan)
      this.#add(plan, leased, since)
      return leased.length
    } catch (error) {
      await releaseWithin(LEASE_MS, () => store.releaseByToken(this.#deps.db, plan.token))
      throw error
    } finally {
      this.#endLeasing()
    }
  }

  async #lease(plan: LeaseOptions): Promise<LeasedLookup[]> {
    const { db, breaker } = this.#deps
    // Probe with an untried lookup first: an input that always fails would keep the circuit open by itself.
    const untried =
      breaker.state === 'closed' ? [] : await store.leaseLookups(db, { ...plan, after: 0, untried: true })
    return untried.length > 0 ? untried : store.leaseLookups(db, plan)
  }

  #add({ limit, token, after }: LeaseOptions, leased: readonly LeasedLookup[], since: number): void {
    const leasedAt = performance.now()
    if (leasedAt - since > LEASE_MS / 2) {
      // Postgres was away, and the lease may end before the answer.
      this.#release(() => store.releaseByToken(this.#deps.db, token))
      return
    }
    this.#isExhausted = leased.length < limit && after === 0
    this.#after = leased.length < limit ? 0 : Math.max(...leased.map(({ id }) => id))
    this.#leases.track(token, leased.length, since)
    for (const lookup of leased) this.#ready.push({ lookup, leasedAt })
  }

  #plan(limit: number): LeaseOptions {
    return {
      run: this.#run.id,
      service: this.#deps.service,
      ...boundingOf(this.#deps, this.#run),
      limit,
      after: this.#after,
      token: randomUUID(),
      leaseMs: LEASE_MS,
      endpoint: this.#options.endpoint,
      bulk: routeRun(this.#deps, this.#run).map(({ bulk, bulkFrom, singly }) => ({
        kinds: bulk.kinds,
        singly: singly === 'when_fewer' ? (bulkFrom ?? true) : singly === 'now',
      })),
    }
  }

  #releaseLookups(lookups: readonly LeasedLookup[]): void {
    if (lookups.length === 0) return
    for (const { token } of lookups) this.#leases.untrack(token)
    this.#release(() => store.releaseLookups(this.#deps.db, lookups))
  }

  /** Releases what was certainly not called. */
  #release(act: () => Promise<void>): void {
    this.#keep(this.#releases, releaseWithin(LEASE_MS, act))
  }

  /** Keeps what is under way until it has ended; the next one who takes gets its failure. */
  #keep(tasks: Set<Promise<unknown>>, act: Promise<unknown>): void {
    const task = act
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => tasks.delete(task))
    tasks.add(task)
  }
}

/** Age at which a lease is extended, and the interval of the check. In milliseconds. */
const EXTEND_INTERVAL_MS = LEASE_MS / 3
/** No call may run under a lease older than this: another process may take it 2 s later. */
const MAX_LEASE_AGE_MS = LEASE_MS - 2_000

interface TrackedLease {
  unfinished: number
  /** The latest moment at which everything under the token was leased or extended. */
  extendedAt: number
  readonly lostController: AbortController
}

/**
 * The leases that one tick holds, extended while their calls are in flight. A lease that could not be extended in
 * time may pass to another process, so its calls are aborted while it is certainly still ours.
 */
export class LeaseKeeper {
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #tracked = new Map<string, TrackedLease>()
  readonly #timer: NodeJS.Timeout
  #isExtending = false
  /** Why leases were not extended last; null: they were. */
  #failure: unknown = null

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.#timer = setInterval(() => void this.#extend(), EXTEND_INTERVAL_MS)
  }

  /** @param extendedAt a moment before they were leased, by `performance.now()` */
  track(token: string, unfinished: number, extendedAt: number): void {
    if (unfinished > 0)
      this.#tracked.set(token, { unfinished, extendedAt, lostController: new AbortController() })
  }

  /** Aborts when the leases under this token could not be extended in time. */
  lostSignal(token: string): AbortSignal {
    return (
      this.#tracked.get(token)?.lostController.signal ??
      AbortSignal.abort(new Error('nothing is leased under this token'))
    )
  }

  /** One lookup under this token is finished. */
  untrack(token: string): void {
    const lease = this.#tracked.get(token)
    if (lease !== undefined && --lease.unfinished <= 0) this.#tracked.delete(token)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #extend(): Promise<void> {
    const now = performance.now()
    this.#abortExpiring(now)
    // Most lookups finish before they need an extension, which would write each of them once more.
    const aging = [...this.#tracked].filter(
      ([, { extendedAt, lostController }]) =>
        now - extendedAt > EXTEND_INTERVAL_MS / 2 && !lostController.signal.aborted,
    )
    if (aging.length === 0 || this.#isExtending) return
    this.#isExtending = true
    try {
      const tokens = aging.map(([token]) => token)
      const extended = await store.extendLookupLeases(this.#deps.db, tokens, LEASE_MS)
      for (const [token, lease] of aging) if (extended.has(token)) lease.extendedAt = now
      this.#failure = null
    } catch (error) {
      this.#failure = error
      this.#deps.log[retryLogLevel(error)](
        { event: 'leases_not_extended', reason: describeError(error) },
        'leases not extended; retrying',
      )
    } finally {
      this.#isExtending = false
    }
  }

  #abortExpiring(now: number): void {
    const expiring = [...this.#tracked.values()].filter(
      ({ extendedAt, lostController }) =>
        now - extendedAt > MAX_LEASE_AGE_MS && !lostController.signal.aborted,
    )
    if (expiring.length === 0) return
    this.#deps.log[retryLogLevel(this.#failure)](
      {
        event: 'leases_not_extended',
        tokens: expiring.length,
        lateMs: Math.round(now - Math.min(...expiring.map(({ extendedAt }) => extendedAt))),
      },
      'leases could not be extended in time; aborting their calls',
    )
    for (const { lostController } of expiring)
      lostController.abort(new Error('the leases could not be extended in time'))
  }
}
