import { describeError } from '../../util/error-text.ts'
import { afterCall, type CallEvent } from '../../domain/lookup.ts'
import type { JsonObject } from '../../domain/json.ts'
import { roundCredits } from '../../domain/spend.ts'
import { type MalformedResponse, storeMalformedResponses } from '../../store/complete-lookups.ts'
import { retryLogLevel, retryWhileUnavailable } from '../../store/connectivity.ts'
import { completeLookups, type LeasedLookup, type LookupResult } from '../../store/lookup-leases.ts'
import { createBatcher, estimateJsonSize } from '../../util/batcher.ts'
import type { CallDeps } from '../deps.ts'
import { recordHashes, settleUnstored } from '../erasure.ts'
import type { CallOutcome } from './call-service.ts'
import type { LookupQueue } from './lookup-queue.ts'

/** How long an answer waits for others to be stored with, in milliseconds. */
const GATHER_MS = 50

/** The result of a call, to be stored. */
export interface AnsweredCall {
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
export const toLostAnswer = (deps: CallDeps, lookup: LeasedLookup, error: unknown): AnsweredCall =>
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
export const storeForSure = <T>(deps: Pick<CallDeps, 'log'>, act: () => Promise<T>): Promise<T> =>
  retryWhileUnavailable(act, {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error, ms) =>
      deps.log.debug({ event: 'answers_wait', reason: error.message, ms }, 'responses wait for Postgres'),
  })

/**
 * Stores answers in batches: those of a moment together, by a statement that also leases the next lookups. An answer waits for others up to
 * `GATHER_MS`, and until half the slots have one: the other half keeps the service busy meanwhile.
 * @param queue which lookups to lease
 * @param options.mayLease whether any are to be leased
 * @param options.isAwaited whether an answer is to be stored at once
 * @returns stores one answer; resolves when it is stored
 */
export function createAnswerStore(
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
export const createMalformedStore = ({
  db,
  log,
}: CallDeps): ((response: MalformedResponse) => Promise<void>) =>
  createBatcher((responses: MalformedResponse[]) =>
    storeMalformedResponses(db, responses).catch((error: unknown) => {
      log[retryLogLevel(error)](
        { event: 'answer_not_stored', reason: describeError(error) },
        'malformed response not stored',
      )
    }),
  )
