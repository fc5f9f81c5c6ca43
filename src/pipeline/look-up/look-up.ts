import { describeError } from '../../util/error-text.ts'
import { afterCall, type CallEvent } from '../../domain/lookup.ts'
import type { JsonObject } from '../../domain/json.ts'
import { toPriority } from '../../domain/run.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { Permits, PermittedCall } from '../../service/rate-limit/permits.ts'
import * as malformedResponses from '../../store/complete-lookups.ts'
import { retryLogLevel, retryWhileUnavailable } from '../../store/connectivity.ts'
import * as jobs from '../../store/jobs.ts'
import * as store from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { addAbortListener, removeAbortListener } from '../../util/abort-listeners.ts'
import { createBatcher, estimateJsonSize } from '../../util/batcher.ts'
import { awaitResults, type CallDeps } from '../deps.ts'
import { recordHashes, settleUnstored } from '../erasure.ts'
import { allowedByBreaker, type CallOutcome, callService } from './call-service.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { LookupQueue } from './lookup-queue.ts'

/** How long an answer waits for others to be stored with, in milliseconds. */
const GATHER_MS = 50

/** Longer than an answer of such a call takes to be gathered and stored, in milliseconds. */
const SLOW_CALL_MS = 75

/** How many calls the average of their duration follows. */
const CALLS_AVERAGED = 32

/** What brings no answer to its lookup. */
const UNANSWERED: ReadonlySet<CallEvent['type']> = new Set(['transient_error', 'not_sent', 'released'])

type CallAnswer = Exclude<CallOutcome, { readonly event: null }>

interface Answer {
  readonly result: store.LookupResult
  readonly bytes: number
}

export interface LookUpResult {
  readonly requested: number
  /** Of these, lookups with a final response. */
  readonly answered: number
  /** The service rejects the key or the client: calls make no sense until that is fixed. */
  readonly stop: ServiceError | null
}

export interface LookUpOptions {
  /** How many lookups may be requested in all, evaluated before each call. */
  readonly limit: () => number
  /** Only people or only companies, for a service with a limit for each. Default: both. */
  readonly endpoint?: 'person' | 'company' | null
  /** Stops early: calls in flight finish, no new ones start. */
  readonly signal: AbortSignal
  /** Called before each call. */
  readonly onRequest?: () => void
  /** Called with the number of lookups leased; their calls are in flight. */
  readonly onLeased?: (lookups: number) => void
  /**
   * Called after responses were stored, with their number.
   * @param isLast they are the last ones of this tick; 0 of them if the latest ones were
   */
  readonly onStored?: (responses: number, isLast: boolean) => void
}

/**
 * Requests up to `limit` waiting lookups of a run, one call each, as fast as the limiter grants.
 *
 * Order: in-flight mark → permit → call. After a crash only marked lookups are in doubt, although lookups are leased ahead.
 * A slot is free when its answer arrives (`PrioritySemaphore.onAnswer`). Answers gather for up to `GATHER_MS` and are stored
 * together, and the same write marks the next lookups in flight, so that a free slot finds one ready. In doubt after a crash
 * are at most: a call per slot, as many answers that were not stored yet, and as many lookups that were marked and not called.
 */
export async function lookUpBatch(
  deps: CallDeps,
  run: RunningRun,
  options: LookUpOptions,
): Promise<LookUpResult> {
  const counts = { requested: 0, answered: 0 }
  const leases = new LeaseKeeper(deps)
  const priority = toPriority(run.trigger)
  const inFlight = new Set<Promise<void>>()
  let stop: ServiceError | null = null
  /** The first error that is not the service's. It ends the tick, which throws it; other responses are still stored. */
  let failure: { readonly error: unknown } | null = null
  /** Calls that wait for their answer. */
  let onWire = 0
  /** How long the latest calls took, on average, in milliseconds. */
  let callMs = 0
  /** No further call starts. */
  let isEnding = false
  /** Answers were stored, and not yet reported as the last ones. */
  let mayBeLast = false
  /** Read several times a call: a combined signal looks at all that it combines each time. */
  let isAborted = options.signal.aborted
  const onAbort = (): void => {
    isAborted = true
  }
  addAbortListener(options.signal, onAbort)
  const storeMalformed = createBatcher(async (results: malformedResponses.MalformedResponse[]) => {
    // For inspection only: a run does not fail for it.
    await malformedResponses.storeMalformedResponses(deps.db, results).catch((error: unknown) => {
      deps.log[retryLogLevel(error)](
        { event: 'answer_not_stored', reason: describeError(error) },
        'malformed response not stored',
      )
    })
  })

  // Paid responses are stored, however long that takes and however many conflicts it meets.
  const retryOptions = {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error: Error, ms: number): void =>
      deps.log.debug({ event: 'answers_wait', reason: error.message, ms }, 'responses wait for Postgres'),
  }

  /** How many more calls may start. */
  const capacity = (): number =>
    stop !== null || failure !== null || isAborted
      ? 0
      : Math.min(options.limit() - counts.requested - inFlight.size, allowedByBreaker(deps, deps.now()))

  const queue = new LookupQueue(deps, run, leases, capacity, deps.slots.capacity, options.endpoint)

  const completeInBatch = createBatcher(
    async (answers: Answer[]) => {
      const results = answers.map(({ result }) => result)
      const nextLookups = capacity() > 0 && deps.slots.mayContinue(priority) ? queue.takeAhead() : []
      const { started, unstored } = await retryWhileUnavailable(
        () => store.completeLookups(deps.db, results, nextLookups),
        retryOptions,
      ).catch(async (error: unknown) => {
        await queue.giveBack(nextLookups)
        throw error
      })
      queue.addReady(nextLookups, started)
      await retryWhileUnavailable(() => settleUnstored(deps.db, unstored), retryOptions)
      deps.metrics?.recordLookups(results.map((answer) => answer.state))
      mayBeLast = !isEnding || onWire > 0
      options.onStored?.(results.length, !mayBeLast)
    },
    {
      concurrency: 2,
      sizeOf: ({ bytes }) => bytes,
      // The last answer waits for no others, and a change that a user waits for does not either.
      gatherMs: () => (onWire === 0 || priority === 'urgent' ? 0 : GATHER_MS),
      // The slots of slow calls bring no second answer before the first is stored, so that none is kept.
      fullAt: () => Math.max(1, Math.floor(deps.slots.capacity / (callMs > SLOW_CALL_MS ? 1 : 2))),
    },
  )

  function startCalls(lookups: readonly store.LeasedLookup[], permits: Permits): void {
    for (const lookup of lookups) {
      const task: Promise<void> = runCall(lookup, permits.use(), () => inFlight.delete(task))
      inFlight.add(task)
    }
  }

  /** One call, until its answer is stored. Does not reject. */
  async function runCall(
    lookup: store.LeasedLookup,
    permitted: PermittedCall,
    onDone: () => void,
  ): Promise<void> {
    // Without an answer the slot is free when the call ends.
    let onEnd = (): void => deps.slots.release(1)
    try {
      const requestedAt = new Date(deps.now())
      options.onRequest?.()
      onWire++
      const sentAt = performance.now()
      let outcome: CallOutcome
      try {
        outcome = await callService(deps, lookup, permitted, leases.lostSignal(lookup.token))
      } finally {
        onWire--
        callMs += (performance.now() - sentAt - callMs) / CALLS_AVERAGED
      }
      if (outcome.event === null) await storeJob(lookup, outcome.asyncJobId)
      else {
        stop ??= outcome.stop
        if (!UNANSWERED.has(outcome.event.type)) counts.answered++
        if (outcome.malformed !== null) await storeMalformed({ lookup: lookup.id, ...outcome.malformed })
        const answer = toAnswer(lookup, requestedAt, outcome)
        onEnd = deps.slots.onAnswer(answer.bytes)
        await completeInBatch(answer)
      }
      counts.requested++
    } catch (error) {
      await recordFailure(lookup, error)
    } finally {
      onDone()
      leases.untrack(lookup.token)
      onEnd()
    }
  }

  /** The service has made a job of the lookup, and answers later. */
  const storeJob = (lookup: store.LeasedLookup, jobId: string | null): Promise<unknown> =>
    retryWhileUnavailable(
      () =>
        jobs.createFromAsyncAnswer(
          deps.db,
          lookup,
          jobId,
          run.id,
          deps.policy.bulkDeadlineMs,
          awaitResults(deps, jobId)?.pollAt,
        ),
      retryOptions,
    )

  function toAnswer(lookup: store.LeasedLookup, requestedAt: Date, { event, cost }: CallAnswer): Answer {
    const { id, token } = lookup
    const fields = afterCall(lookup, event, deps.policy, deps.now(), deps.random())
    const credits = toCredits(lookup, cost === 'billed' ? event : null)
    return {
      result: {
        id,
        token,
        requestedAt,
        ...fields,
        call: cost,
        credits,
        ...recordHashes(lookup.kind, fields.record),
      },
      bytes: fields.record === null ? 0 : estimateJsonSize(fields.record),
    }
  }

  /**
   * Handles an error of our own in the middle of a call. The attempt may be billed: if the lookup stayed leased, it
   * would be requested again without end and the error would go unseen.
   */
  async function recordFailure(lookup: store.LeasedLookup, error: unknown): Promise<void> {
    failure ??= { error }
    deps.log.error(
      { event: 'lookup_failed', lookup: lookup.id, err: error },
      'lookup failed, or its response was not stored',
    )
    const reason = `not requested or not stored: ${(error as Error).name}`
    const event = {
      type: 'transient_error',
      reason,
      retryAfterMs: null,
      inDoubt: true,
      isLost: true,
    } as const
    const fields = afterCall(lookup, event, deps.policy, deps.now(), deps.random())
    const { id, token } = lookup
    const [requestedAt, credits] = [new Date(deps.now()), toCredits(lookup, null)]
    const result = { id, token, requestedAt, ...fields, call: 'retried' as const, credits }
    await retryWhileUnavailable(() => store.completeLookups(deps.db, [result]), retryOptions).catch(
      (storeError: unknown) => {
        deps.log.error(
          { event: 'lookup_failed', lookup: id, err: storeError },
          'lookup stays leased until its lease expires',
        )
      },
    )
  }

  /** What a call cost; undefined where each lookup costs one credit. @param event null: it is not billed */
  function toCredits({ kind }: store.LeasedLookup, event: CallEvent | null): number | undefined {
    const { credits } = deps.adapter
    if (credits.isFlat) return undefined
    return event === null ? 0 : credits.of(kind, event.type === 'found' ? (event.record as JsonObject) : null)
  }

  try {
    while (capacity() > 0) {
      const slots = deps.slots.free(priority)
      const free = Math.min(slots, capacity())
      if (slots === 0) {
        await deps.slots.wait(priority, options.signal)
        continue
      }
      const permits = await deps.limiter
        .acquire(free, priority, options.signal, options.endpoint)
        .catch((error: unknown) => {
          if (isAborted) return null
          throw error
        })
      if (permits === null) break
      // Other ticks may have taken the slots while this one waited for permits.
      const takenSlots = deps.slots.take(permits.count, priority)
      let unusedSlots = takenSlots
      try {
        if (takenSlots === 0) continue
        const nextLookups = await queue.markNext(takenSlots)
        options.onLeased?.(nextLookups.length)
        if (nextLookups.length === 0) break
        unusedSlots -= nextLookups.length
        startCalls(nextLookups, permits)
      } finally {
        permits.release()
        deps.slots.release(unusedSlots)
      }
    }
  } catch (error) {
    failure ??= { error }
  }
  isEnding = true
  // Also waits for tasks that start while others end.
  while (inFlight.size > 0) await Promise.all(inFlight)
  try {
    // They may be stored before it is known that nothing follows: what gathers answers would wait for more.
    if (mayBeLast) options.onStored?.(0, true)
  } finally {
    // An error in leasing or marking may be known only now.
    await queue.close().catch((error: unknown) => {
      failure ??= { error }
    })
    leases.stop()
    removeAbortListener(options.signal, onAbort)
  }
  if (failure !== null) throw (failure as { error: unknown }).error
  return { ...counts, stop }
}
