import { afterCall, type CallEvent } from '../../domain/lookup.ts'
import { toPriority, type Priority } from '../../domain/run.ts'
import { roundCredits, type SingleEndpoint } from '../../domain/spend.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { Permits, PermittedCall } from '../../service/rate-limit/permits.ts'
import { createFromAsyncAnswer } from '../../store/jobs.ts'
import {
  completeLookups,
  storeMalformedResponses,
  type LeasedLookup,
  type LookupResult,
  type MalformedResponse,
} from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { awaitResults, type CallDeps } from '../deps.ts'
import { allowedByBreaker, callService, type CallOutcome } from './call-service.ts'
import { LeaseKeeper, LookupQueue } from './lookup-queue.ts'
import { describeError } from '../../util/error-text.ts'
import type { JsonObject } from '../../domain/json.ts'
import { retryLogLevel, retryWhileUnavailable } from '../../store/transaction.ts'
import { createBatcher, estimateJsonSize } from '../../util/batcher.ts'
import { recordHashes, settleUnstored } from '../erasure.ts'

interface LookUpResult {
  readonly requested: number
  /** The service rejects the key or the client: calls make no sense until that is fixed. */
  readonly stop: ServiceError | null
}

export interface LookUpOptions {
  /** How many lookups may be requested in all, evaluated before each call. */
  readonly limit: () => number
  /** Only people or only companies, for a service with a limit for each. Default: both. */
  readonly endpoint?: SingleEndpoint | null
  /** Stops early: calls in flight finish, no new ones start. */
  readonly signal: AbortSignal
  /** Called before each call. */
  readonly onRequest?: () => void
  /** Called with the number of lookups leased; their calls are in flight. */
  readonly onLeased?: (lookups: number) => void
  /**
   * Called after responses were stored, with their number.
   * @param isLast no others follow in this tick; 0 of them if the latest ones were the last
   */
  readonly onStored?: (responses: number, isLast: boolean) => void
}

/**
 * Requests up to `limit` waiting lookups of a run, one call each, as fast as the limiter grants.
 *
 *     slot ──▶ permit ──▶ lease ──▶ call ──▶ answer ──▶ stored, with the next lease
 *      ▲                                       │
 *      └────────── the slot is free ───────────┘
 *
 * In doubt after a crash are at most: a call per slot, as many answers that were not stored yet, and as many lookups
 * that were leased and not called.
 */
export const lookUpBatch = (deps: CallDeps, run: RunningRun, options: LookUpOptions): Promise<LookUpResult> =>
  new LookUpTick(deps, run, options).run()

class LookUpTick {
  readonly #deps: CallDeps
  readonly #run: RunningRun
  readonly #options: LookUpOptions
  readonly #priority: Priority
  readonly #leases: LeaseKeeper
  readonly #queue: LookupQueue
  readonly #storeAnswer: (answer: AnsweredCall) => Promise<void>
  readonly #storeMalformed: (response: MalformedResponse) => Promise<void>
  /** Calls until their answer is stored. They do not reject. */
  readonly #inFlight = new Set<Promise<void>>()
  /** Calls that wait for their answer. */
  #onWire = 0
  #requested = 0
  #stop: ServiceError | null = null
  /** The first error that is not the service's. It ends the tick, which throws it; other responses are still stored. */
  #failure: { readonly error: unknown } | null = null

  constructor(deps: CallDeps, run: RunningRun, options: LookUpOptions) {
    this.#deps = deps
    this.#run = run
    this.#options = options
    this.#priority = toPriority(run.trigger)
    this.#leases = new LeaseKeeper(deps)
    this.#queue = new LookupQueue(deps, run, this.#leases, {
      capacity: () => this.#capacity(),
      maxReady: deps.slots.capacity,
      endpoint: options.endpoint ?? null,
    })
    this.#storeAnswer = createAnswerStore(deps, this.#queue, {
      mayLease: () => this.#capacity() > 0 && deps.slots.mayContinue(this.#priority),
      // The last answer waits for no others, and a change that a user waits for does not either.
      isAwaited: () => this.#onWire === 0 || this.#priority === 'urgent',
      onStored: (answers) => options.onStored?.(answers, false),
    })
    this.#storeMalformed = createMalformedStore(deps)
  }

  async run(): Promise<LookUpResult> {
    try {
      await this.#callAll().catch((error: unknown) => this.#fail(error))
      // Also waits for calls that start while others end.
      while (this.#inFlight.size > 0) await Promise.all(this.#inFlight)
      // What gathers answers would wait for more.
      if (this.#requested > 0) this.#options.onStored?.(0, true)
      await this.#queue.close().catch((error: unknown) => this.#fail(error))
    } finally {
      this.#leases.stop()
    }
    if (this.#failure !== null) throw this.#failure.error
    return { requested: this.#requested, stop: this.#stop }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
  }

  /** How many more calls may start. */
  #capacity(): number {
    if (this.#stop !== null || this.#failure !== null || this.#options.signal.aborted) return 0
    const left = this.#options.limit() - this.#requested - this.#inFlight.size
    return Math.min(left, allowedByBreaker(this.#deps, this.#deps.now()))
  }

  async #callAll(): Promise<void> {
    const { slots, limiter } = this.#deps
    const { signal, endpoint } = this.#options
    while (this.#capacity() > 0) {
      const free = slots.free(this.#priority)
      if (free === 0) {
        await slots.wait(this.#priority, signal)
        continue
      }
      const permits = await limiter
        .acquire(Math.min(free, this.#capacity()), this.#priority, signal, endpoint)
        .catch((error: unknown) => {
          if (signal.aborted) return null
          throw error
        })
      if (permits === null || !(await this.#callNext(permits))) return
    }
  }

  /** @returns false if nothing waits */
  async #callNext(permits: Permits): Promise<boolean> {
    const { slots } = this.#deps
    // Other ticks may have taken the slots while this one waited for permits.
    const taken = slots.take(permits.count, this.#priority)
    let unused = taken
    try {
      if (taken === 0) return true
      const lookups = await this.#queue.next(taken)
      this.#options.onLeased?.(lookups.length)
      unused -= lookups.length
      for (const lookup of lookups) this.#start(lookup, permits.use())
      return lookups.length > 0
    } finally {
      permits.release()
      slots.release(unused)
    }
  }

  #start(lookup: LeasedLookup, permitted: PermittedCall): void {
    const task: Promise<void> = this.#call(lookup, permitted, () => this.#inFlight.delete(task))
    this.#inFlight.add(task)
  }

  /** One call, until its answer is stored. Does not reject. */
  async #call(lookup: LeasedLookup, permitted: PermittedCall, onDone: () => void): Promise<void> {
    const { slots } = this.#deps
    // Without an answer the slot is free when the call ends.
    let onStored = (): void => slots.release(1)
    try {
      const requestedAt = new Date(this.#deps.now())
      this.#options.onRequest?.()
      this.#onWire++
      const outcome = await callService(
        this.#deps,
        lookup,
        permitted,
        this.#leases.lostSignal(lookup.token),
      ).finally(() => this.#onWire--)
      if (outcome.event === null) await this.#storeJob(lookup, outcome.asyncJobId)
      else {
        this.#stop ??= outcome.stop
        if (outcome.malformed !== null)
          await this.#storeMalformed({ lookup: lookup.id, ...outcome.malformed })
        const answer = toAnswer(this.#deps, lookup, requestedAt, outcome)
        onStored = slots.onAnswer(answer.bytes)
        await this.#storeAnswer(answer)
      }
      this.#requested++
    } catch (error) {
      await this.#storeLost(lookup, error)
    } finally {
      onDone()
      this.#leases.untrack(lookup.token)
      onStored()
    }
  }

  /** The service has made a job of the lookup, and answers later. */
  #storeJob(lookup: LeasedLookup, jobId: string | null): Promise<void> {
    const { db, policy } = this.#deps
    // A single call names no address: only a poll brings its result.
    const pollAt = awaitResults(this.#deps, jobId, false)?.pollAt
    return storeForSure(this.#deps, () =>
      createFromAsyncAnswer(db, lookup, jobId, this.#run.id, policy.bulk.deadlineMs, pollAt),
    )
  }

  async #storeLost(lookup: LeasedLookup, error: unknown): Promise<void> {
    const { db, log } = this.#deps
    this.#fail(error)
    log.error(
      { event: 'lookup_failed', lookup: lookup.id, err: error },
      'lookup failed, or its response was not stored',
    )
    const { result } = toLostAnswer(this.#deps, lookup, error)
    await storeForSure(this.#deps, () => completeLookups(db, [result])).catch((storeError: unknown) => {
      log.error(
        { event: 'lookup_failed', lookup: lookup.id, err: storeError },
        'lookup stays leased until its lease expires',
      )
    })
  }
}

/** How long an answer waits for others to be stored with, in milliseconds. */
const GATHER_MS = 50

/** The result of a call, to be stored. */
interface AnsweredCall {
  readonly result: LookupResult
  readonly bytes: number
}

/** What a call has brought. */
export function toAnswer(
  deps: CallDeps,
  lookup: LeasedLookup,
  requestedAt: Date,
  { event, cost }: Exclude<CallOutcome, { readonly event: null }>,
): AnsweredCall {
  const { id, token } = lookup
  const fields = afterCall(lookup, event, deps.policy, deps.now(), deps.random())
  const credits = cost === 'billed' ? toCredits(deps, lookup, event) : 0
  const overrun = credits > deps.adapter.credits.most[lookup.kind] ? credits : null
  const hashes = recordHashes(lookup.kind, fields.record)
  return {
    result: { id, token, requestedAt, ...fields, call: cost, credits, overrun, ...hashes },
    bytes: fields.record === null ? 0 : estimateJsonSize(fields.record),
  }
}

/**
 * What is stored after an error of our own in the middle of a call. The attempt may be billed: if the lookup stayed leased, it
 * would be requested again without end and the error would go unseen.
 */
const toLostAnswer = (deps: CallDeps, lookup: LeasedLookup, error: unknown): AnsweredCall =>
  toAnswer(deps, lookup, new Date(deps.now()), {
    event: {
      type: 'transient_error',
      reason: `not requested or not stored: ${(error as Error).name}`,
      retryAfterMs: null,
      inDoubt: true,
      isLost: true,
    },
    cost: 'retried',
    stop: null,
    malformed: null,
  })

/** What a billed call cost: as the service says, or as its description does. */
function toCredits({ adapter: { credits } }: CallDeps, { kind }: LeasedLookup, event: CallEvent): number {
  const stated = 'credits' in event ? event.credits : null
  if (typeof stated === 'number') return roundCredits(stated)
  return credits.of(kind, event.type === 'found' ? (event.record as JsonObject) : null)
}

/** Paid responses are stored, however long that takes and however many conflicts it meets. */
const storeForSure = <T>(deps: Pick<CallDeps, 'log'>, act: () => Promise<T>): Promise<T> =>
  retryWhileUnavailable(act, {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error, ms) =>
      deps.log.debug({ event: 'answers_wait', reason: error.message, ms }, 'responses wait for Postgres'),
  })

/**
 * Stores answers in batches, by a statement that also leases the next lookups. An answer waits for others up to
 * `GATHER_MS`, and until half the slots have an answer: the other half keeps the service busy meanwhile.
 * @param queue which lookups to lease
 * @param options.mayLease whether any are to be leased
 * @param options.isAwaited whether an answer is to be stored at once
 * @returns stores one answer; resolves when it is stored
 */
function createAnswerStore(
  deps: CallDeps,
  queue: LookupQueue,
  options: {
    readonly mayLease: () => boolean
    readonly isAwaited: () => boolean
    readonly onStored: (answers: number) => void
  },
): (answer: AnsweredCall) => Promise<void> {
  return createBatcher(
    async (answers: AnsweredCall[]) => {
      const results = answers.map(({ result }) => result)
      let planned = options.mayLease() ? queue.planAhead() : null
      const unstored = await storeForSure(deps, async () => {
        // Once: an attempt that fails for its client may have leased all the same.
        const plan = planned
        planned = null
        const since = performance.now()
        const stored = await completeLookups(deps.db, results, plan).catch((error: unknown) => {
          if (plan !== null) queue.giveUp(plan)
          throw error
        })
        if (plan !== null) queue.addLeased(plan, stored.leased, since)
        return stored.unstored
      })
      await storeForSure(deps, () => settleUnstored(deps.db, unstored))
      deps.metrics?.recordLookups(results.map((answer) => answer.state))
      options.onStored(results.length)
    },
    {
      concurrency: 2,
      sizeOf: ({ bytes }) => bytes,
      gatherMs: () => (options.isAwaited() ? 0 : GATHER_MS),
      fullAt: () => Math.max(1, Math.floor(deps.slots.capacity / 2)),
    },
  )
}

/** Stores malformed responses for inspection: a run does not fail for them. */
const createMalformedStore = ({ db, log }: CallDeps): ((response: MalformedResponse) => Promise<void>) =>
  createBatcher((responses: MalformedResponse[]) =>
    storeMalformedResponses(db, responses).catch((error: unknown) => {
      log[retryLogLevel(error)](
        { event: 'answer_not_stored', reason: describeError(error) },
        'malformed response not stored',
      )
    }),
  )
