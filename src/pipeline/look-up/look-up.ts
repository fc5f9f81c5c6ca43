import { afterCall } from '../../domain/lookup.ts'
import { toPriority } from '../../domain/run.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { Permits, PermittedCall } from '../../service/rate-limit/permits.ts'
import * as keptAnswers from '../../store/complete-lookups.ts'
import { retryWhileUnavailable } from '../../store/connectivity.ts'
import * as jobs from '../../store/jobs.ts'
import * as store from '../../store/lookup-leases.ts'
import type { RunningRun } from '../../store/runs.ts'
import { createBatcher } from '../../util/batcher.ts'
import type { CallDeps } from '../deps.ts'
import { eraseLateAnswers, subjectHashes } from '../erasure.ts'
import { allowedByBreaker, callService } from './call-service.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { LookupQueue } from './lookup-queue.ts'

export interface LookUpResult {
  readonly requested: number
  /** Of these, lookups with a final response. */
  readonly answered: number
  readonly retried: number
  readonly throttled: number
  /** The service rejects the key or the client: calls make no sense until that is fixed. */
  readonly stop: ServiceError | null
}

export interface LookUpOptions {
  readonly limit: number
  /** Stops early: calls in flight finish, no new ones start. */
  readonly signal: AbortSignal
  /** Called before each call, with its endpoint. */
  readonly onRequest?: (call: 'person' | 'company') => void
  /** Called with the number of lookups leased; their calls are in flight. */
  readonly onLeased?: (lookups: number) => void
  /** Called after some responses were stored. */
  readonly onStored?: () => void
}

/**
 * Requests up to `limit` waiting lookups of a run, one call each, as fast as the limiter grants.
 *
 * Order: permit → in-flight mark → call. After a crash only marked calls are in doubt, at most one per slot, although
 * lookups are leased ahead. A slot frees when its response is stored, not when it arrives, which bounds the responses
 * in memory. Responses of many slots are stored together; if permits are available, the same write marks the next
 * lookups of these slots.
 */
export async function lookUpBatch(
  deps: CallDeps,
  run: RunningRun,
  options: LookUpOptions,
): Promise<LookUpResult> {
  const count = { requested: 0, answered: 0, retried: 0, throttled: 0 }
  const leases = new LeaseKeeper(deps)
  const priority = toPriority(run.trigger)
  const underWay = new Set<Promise<void>>()
  let stop: ServiceError | null = null
  /** The first error that is not the service's. It ends the tick; other responses are still stored. */
  let failure: { readonly error: unknown } | null = null
  /** Slots of finished calls that were reused for the next call. */
  let handedOn = 0
  const keep = createBatcher(async (answers: keptAnswers.MalformedResponse[]) => {
    // For inspection only: a run does not fail for it.
    await keptAnswers.storeMalformedResponses(deps.db, answers).catch((error: unknown) => {
      deps.log.warn({ reason: (error as Error).message }, 'malformed response not stored')
    })
  })

  // Paid responses are stored, however long that takes and however many conflicts it meets.
  const waiting = {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error: Error, ms: number): void =>
      deps.log.warn({ reason: error.message, ms }, 'responses wait for Postgres'),
  }

  /** How many more calls may start. */
  const room = (): number =>
    stop !== null || failure !== null || options.signal.aborted
      ? 0
      : Math.min(options.limit - count.requested - underWay.size, allowedByBreaker(deps, deps.now()))

  const supply = new LookupQueue(deps, run, leases, room)

  const settle = createBatcher(
    async (answers: store.LookupResult[]) => {
      const free = deps.slots.mayContinue(priority) ? Math.min(answers.length, room(), supply.size) : 0
      const permits = free > 0 ? deps.limiter.acquireNow(free) : null
      const coming = supply.take(permits?.count ?? 0)
      try {
        const { started, unstored } = await retryWhileUnavailable(
          () => store.completeLookups(deps.db, answers, coming),
          waiting,
        ).catch(async (error: unknown) => {
          await supply.release(coming)
          throw error
        })
        supply.dropLost(coming, started)
        if (permits !== null) begin(started, permits)
        handedOn += started.length
        await retryWhileUnavailable(() => eraseLateAnswers(deps.db, unstored), waiting)
      } finally {
        permits?.release()
      }
      deps.metrics?.recordLookups(answers.map((answer) => answer.state))
      options.onStored?.()
    },
    {
      concurrency: 2,
      sizeOf: (answer) => (answer.record === null ? 0 : JSON.stringify(answer.record).length),
    },
  )

  function begin(lookups: readonly store.LeasedLookup[], permits: Permits): void {
    for (const lookup of lookups) {
      const task = handle(lookup, permits.use())
        .catch((error: unknown) => setAside(lookup, error))
        .finally(() => {
          underWay.delete(task)
          leases.untrack(lookup.token)
          if (handedOn > 0) handedOn--
          else deps.slots.release(1)
        })
      underWay.add(task)
    }
  }

  /**
   * Handles an error of our own in the middle of a call. The attempt may be billed: if the lookup stayed leased, it
   * would be requested again without end and the error would go unseen.
   */
  async function setAside(lookup: store.LeasedLookup, error: unknown): Promise<void> {
    failure ??= { error }
    deps.log.error({ lookup: lookup.id, err: error }, 'lookup failed, or its response was not stored')
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
    const one = { id, token, requestedAt: new Date(deps.now()), ...fields }
    await retryWhileUnavailable(() => store.completeLookups(deps.db, [one]), waiting).catch(
      (second: unknown) => {
        deps.log.error({ lookup: id, err: second }, 'lookup stays leased until its lease expires')
      },
    )
  }

  async function handle(lookup: store.LeasedLookup, call: PermittedCall): Promise<void> {
    const requestedAt = new Date(deps.now())
    options.onRequest?.(lookup.kind === 'domain' ? 'company' : 'person')
    const asked = await callService(deps, lookup, call, leases.lostSignal(lookup.token))
    if (asked.event === null) {
      const { asyncJobId } = asked
      await retryWhileUnavailable(
        () => jobs.createFromAsyncAnswer(deps.db, lookup, asyncJobId, run.id, deps.policy.bulkDeadlineMs),
        waiting,
      )
    } else {
      stop ??= asked.stop
      if (asked.throttled) count.throttled++
      if (asked.event.type === 'transient_error' || asked.event.type === 'not_sent') count.retried++
      else if (asked.event.type !== 'released') count.answered++
      if (asked.malformed !== null) await keep({ lookup: lookup.id, ...asked.malformed })
      const fields = afterCall(lookup, asked.event, deps.policy, deps.now(), deps.random())
      await settle({
        id: lookup.id,
        token: lookup.token,
        requestedAt,
        ...fields,
        hashes: subjectHashes(fields.record),
      })
    }
    count.requested++
  }

  try {
    while (room() > 0) {
      const slots = deps.slots.free(priority)
      const free = Math.min(slots, room())
      if (slots === 0) {
        await deps.slots.wait(priority, options.signal)
        continue
      }
      const permits = await deps.limiter.acquire(free, priority, options.signal).catch((error: unknown) => {
        if (options.signal.aborted) return null
        throw error
      })
      if (permits === null) break
      // Other ticks may have taken the slots while this one waited for permits.
      const taken = deps.slots.take(permits.count, priority)
      let unused = taken
      try {
        if (taken === 0) continue
        const next = await supply.markNext(taken)
        options.onLeased?.(next.length)
        if (next.length === 0) break
        unused -= next.length
        begin(next, permits)
      } finally {
        permits.release()
        deps.slots.release(unused)
      }
    }
  } finally {
    // Also waits for tasks that start while others end.
    while (underWay.size > 0) await Promise.all(underWay)
    await supply.close()
    leases.stop()
  }
  if (failure !== null) throw (failure as { error: unknown }).error
  return { ...count, stop }
}
