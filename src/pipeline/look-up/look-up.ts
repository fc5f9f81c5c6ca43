import * as jobs from '../../store/jobs.ts'
import * as keptAnswers from '../../store/complete-lookups.ts'
import * as store from '../../store/lookup-leases.ts'
import { afterCall } from '../../domain/lookup.ts'
import { toPriority } from '../../domain/run.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { Permits, PermittedCall } from '../../service/rate-limit/permits.ts'
import { retryWhileUnavailable } from '../../store/connectivity.ts'
import type { RunningRun } from '../../store/runs.ts'
import type { CallDeps } from '../deps.ts'
import { eraseLateAnswers, subjectHashes } from '../erasure.ts'
import { createBatcher } from '../../util/batcher.ts'
import { allowedByBreaker, callService } from './call-service.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { LookupQueue } from './lookup-queue.ts'

export interface LookUpResult {
  readonly asked: number
  /** Of these, those that the service decided. */
  readonly answered: number
  readonly retried: number
  readonly throttled: number
  /** The service refuses us for good: no further call makes sense until somebody acts. */
  readonly stop: ServiceError | null
}

export interface LookUpOptions {
  readonly most: number
  /** Ends it early: what is under way is finished, nothing new is begun. */
  readonly signal: AbortSignal
  /** One call is made, to one of the two endpoints. */
  readonly onRequest?: (call: 'person' | 'company') => void
  /** So many lookups were leased; their calls are under way. */
  readonly onLeased?: (lookups: number) => void
  /** Some answers are stored. */
  readonly onStored?: () => void
}

/**
 * Asks up to `most` waiting lookups of a run, one call each, as fast as the limiter grants.
 *
 * Lookups are leased some way ahead, by the pace of the calls. A permit comes first, then a note in Postgres that
 * these are asked now, then the calls: so a crash leaves in doubt what was on the wire, at most one a slot, and
 * nothing else that was leased. A slot is free again when its answer is stored, not when it came, so that no answer
 * waits in memory for a write that may never happen. The answers of many slots go together, and where permits are at
 * hand their write is also the note of what these slots ask next.
 */
export async function lookUpBatch(
  deps: CallDeps,
  run: RunningRun,
  options: LookUpOptions,
): Promise<LookUpResult> {
  const count = { asked: 0, answered: 0, retried: 0, throttled: 0 }
  const leases = new LeaseKeeper(deps)
  const priority = toPriority(run.trigger)
  const underWay = new Set<Promise<void>>()
  let stop: ServiceError | null = null
  /** The first error that is no failure of the service. It ends the tick; what else was answered is stored. */
  let failure: { readonly error: unknown } | null = null
  /** Slots of answered calls in which the next is under way already. */
  let handedOn = 0
  const keep = createBatcher(async (answers: keptAnswers.MalformedResponse[]) => {
    // To look at later only: a run does not fail for it.
    await keptAnswers.storeMalformedResponses(deps.db, answers).catch((error: unknown) => {
      deps.log.warn({ reason: (error as Error).message }, 'an answer that is no record was not kept')
    })
  })

  // What is paid for is stored, however long it takes, also where it meets other transactions again and again.
  const waiting = {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error: Error, ms: number): void =>
      deps.log.warn({ reason: error.message, ms }, 'answers wait for Postgres'),
  }

  /** How many more may be begun. */
  const room = (): number =>
    stop !== null || failure !== null || options.signal.aborted
      ? 0
      : Math.min(options.most - count.asked - underWay.size, allowedByBreaker(deps, deps.now()))

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
      deps.meter?.recordLookups(answers.map((answer) => answer.state))
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
   * Something of ours failed in the middle of a call. The lookup has had a try that may be paid for: left leased, it
   * would be asked again without an end, and its error be seen by nobody.
   */
  async function setAside(lookup: store.LeasedLookup, error: unknown): Promise<void> {
    failure ??= { error }
    deps.log.error({ lookup: lookup.id, err: error }, 'a lookup could not be asked, or its answer not stored')
    const reason = `not asked or not stored: ${(error as Error).name}`
    const event = {
      type: 'transient_error',
      reason,
      retryAfterMs: null,
      inDoubt: true,
      isLost: true,
    } as const
    const fields = afterCall(lookup, event, deps.rules, deps.now(), deps.random())
    const { id, token } = lookup
    const one = { id, token, askedAt: new Date(deps.now()), ...fields }
    await retryWhileUnavailable(() => store.completeLookups(deps.db, [one]), waiting).catch(
      (second: unknown) => {
        deps.log.error({ lookup: id, err: second }, 'a lookup stays leased until its lease runs out')
      },
    )
  }

  async function handle(lookup: store.LeasedLookup, call: PermittedCall): Promise<void> {
    const askedAt = new Date(deps.now())
    options.onRequest?.(lookup.kind === 'domain' ? 'company' : 'person')
    const asked = await callService(deps, lookup, call, leases.lostSignal(lookup.token))
    if (asked.event === null) {
      const { asyncJobId } = asked
      await retryWhileUnavailable(
        () => jobs.createFromAsyncAnswer(deps.db, lookup, asyncJobId, run.id, deps.rules.bulkDeadlineMs),
        waiting,
      )
    } else {
      stop ??= asked.stop
      if (asked.throttled) count.throttled++
      if (asked.event.type === 'transient_error' || asked.event.type === 'not_sent') count.retried++
      else if (asked.event.type !== 'released') count.answered++
      if (asked.malformed !== null) await keep({ lookup: lookup.id, ...asked.malformed })
      const fields = afterCall(lookup, asked.event, deps.rules, deps.now(), deps.random())
      await settle({
        id: lookup.id,
        token: lookup.token,
        askedAt,
        ...fields,
        hashes: subjectHashes(fields.record),
      })
    }
    count.asked++
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
      // While the permits were waited for, others may have taken the slots.
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
    // Tasks that are begun while others end are waited for as well.
    while (underWay.size > 0) await Promise.all(underWay)
    await supply.close()
    leases.stop()
  }
  if (failure !== null) throw (failure as { error: unknown }).error
  return { ...count, stop }
}
