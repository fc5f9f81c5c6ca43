import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import { randomUUID } from 'node:crypto'
import { JOB_SIZE, afterSubmit, Job, type SubmitEvent } from '../domain/job.ts'
import { toBulkName } from '../domain/service/job-inputs.ts'
import type { BulkCall } from '../domain/service/service.ts'
import { toPriority } from '../domain/run.ts'
import { RateLimitedError, ServiceError, AbortedError } from '../service/errors.ts'
import type { PermittedCall } from '../service/rate-limit/permits.ts'
import { releaseWithin, retryWhileUnavailable, inTransaction } from '../store/transaction.ts'
import type { RunningRun } from '../store/runs.ts'
import { createBatcher } from '../util/batcher.ts'
import { boundingOf, isDelivered, LEASE_MS, routeRun, awaitResults, type CallDeps } from './deps.ts'
import { withGrantedCalls } from './granted-calls.ts'
import { allowedByBreaker, logCall, describeFailure } from './look-up/call-service.ts'
import { toFetchedDelivery, toKeptAnswer } from './receive.ts'
import { statusFacts } from '../domain/service/status.ts'
import { insertDeliveries, type ReceivedDelivery } from '../store/deliveries.ts'
import { describeError } from '../util/error-text.ts'

/** Jobs posted per tick. */
export const JOBS_PER_TICK = 30

/**
 * How long the result of a post waits for others, to be recorded with them, in milliseconds; that of the last post waits for
 * none. A delivery may come first: it finds its job all the same.
 */
const GATHER_RESULTS_MS = 100

export interface SubmitResult {
  /** Jobs whose results came in the answer, and wait to be settled. */
  readonly answered: number
  readonly submitted: number
  /** Inputs of the jobs that were submitted. */
  readonly inputs: number
  readonly calls: number
  readonly stop: ServiceError | null
}

const NOTHING_SUBMITTED: SubmitResult = {
  answered: 0,
  submitted: 0,
  inputs: 0,
  calls: 0,
  stop: null,
}

/**
 * Posts jobs: first jobs that the service certainly did not accept before, then new ones from the run's waiting
 * lookups. A job and its members are committed before the call, and its webhook URL holds its own key: the delivery
 * finds the job even if the 202 is lost.
 */
export async function submitJobs(
  deps: CallDeps,
  run: RunningRun,
  options: { readonly signal: AbortSignal },
): Promise<SubmitResult> {
  const routes = routeRun(deps, run).flatMap(({ bulk, bulkFrom }): JobRoute[] =>
    bulkFrom === null ? [] : [{ bulk, kinds: bulk.kinds, least: bulkFrom }],
  )
  if (routes.length === 0) return NOTHING_SUBMITTED
  const largest = Math.max(JOB_SIZE, ...routes.map(({ bulk }) => bulk.size))
  const jobsPerTick = Math.max(1, Math.floor((JOBS_PER_TICK * JOB_SIZE) / largest))
  const allowed = Math.min(jobsPerTick, allowedByBreaker(deps, deps.now()))
  if (allowed === 0) return NOTHING_SUBMITTED
  const submittable = await jobs.findSubmittable(deps.db, { run: run.id, service: deps.service }, routes)
  const filled = routes.filter((_, n) => submittable.hasNew[n])
  if (filled.length === 0 && !submittable.hasRetries) return NOTHING_SUBMITTED

  const again = submittable.hasRetries
  const done = await postJobs(deps, { run, routes: filled, again, signal: options.signal, wanted: allowed })
  const accepted = done.filter(({ accepted }) => accepted)
  return {
    answered: accepted.filter(({ hasAnswer }) => hasAnswer).length,
    submitted: accepted.length,
    inputs: accepted.reduce((sum, { inputs }) => sum + inputs, 0),
    calls: done.length,
    stop: done.find(({ stop }) => stop !== null)?.stop ?? null,
  }
}

interface Submission {
  readonly accepted: boolean
  readonly hasAnswer: boolean
  readonly inputs: number
  readonly stop: ServiceError | null
}

/** What new jobs are made of: enough waiting lookups of an endpoint. */
interface JobRoute {
  readonly bulk: BulkCall
  readonly kinds: BulkCall['kinds']
  readonly least: number
}

/** Posts as many jobs as may be posted at once; none if something more urgent came, or it was aborted. */
async function postJobs(
  deps: CallDeps,
  options: Pick<LeaseOptions, 'run' | 'routes' | 'again'> & {
    readonly wanted: number
    readonly signal: AbortSignal
  },
): Promise<readonly Submission[]> {
  const calls = { ...options, endpoint: 'bulk' as const, priority: toPriority(options.run.trigger) }
  const posted = await withGrantedCalls(deps, calls, async (granted) => {
    const token = randomUUID()
    const outgoingJobs = await leaseJobs(deps, {
      ...options,
      limit: granted.permits,
      token,
      leaseMs: submitLeaseMs(granted.permits, granted.slots, deps.policy.timeoutMs),
    }).catch(async (error: unknown) => {
      // The leases may be committed although the response was lost. Nothing was posted under this token, so nothing
      // is in doubt.
      await releaseWithin(LEASE_MS, () => jobs.releaseJobs(deps.db, token))
      throw error
    })
    /** Posts without a result yet. */
    let onWire = outgoingJobs.length
    const recordResult = createBatcher((results: SubmissionResult[]) => recordSubmissions(deps, results), {
      gatherMs: () => (onWire === 0 ? 0 : GATHER_RESULTS_MS),
    })
    return granted.each(outgoingJobs, async (job, call) => {
      const posted = await postJob(deps, job, call)
      onWire--
      await recordResult(toSubmissionResult(deps, job, token, posted))
      return {
        accepted: posted.event.type === 'accepted',
        hasAnswer: posted.delivery !== null,
        inputs: job.inputs.length,
        stop: posted.stop,
      }
    })
  })
  return posted ?? []
}

/**
 * Lease duration of a submission. It is not extended during the call, so it must outlast the timeouts of all calls
 * that its slot makes. Pure.
 */
export function submitLeaseMs(jobs: number, slots: number, callTimeoutMs: number): number {
  return Math.ceil(jobs / slots) * callTimeoutMs + LEASE_MS + 60_000
}

interface LeaseOptions {
  readonly run: RunningRun
  readonly limit: number
  readonly token: string
  readonly routes: readonly JobRoute[]
  /** Include jobs that were not accepted before. */
  readonly again: boolean
  readonly leaseMs: number
}

/** Leases jobs that were certainly not accepted before, then creates new ones. */
async function leaseJobs(deps: CallDeps, options: LeaseOptions): Promise<jobs.OutgoingJob[]> {
  const { run, limit, token, leaseMs } = options
  const leased = options.again
    ? await jobs.leaseJobsForRetry(deps.db, { run: run.id, service: deps.service, limit, token, leaseMs })
    : []
  for (const { bulk, kinds, least } of options.routes) {
    if (leased.length === limit) break
    const created = await jobs.createJobs(deps.db, {
      run: run.id,
      service: deps.service,
      ...boundingOf(deps, run),
      ids: Array.from({ length: limit - leased.length }, () => randomUUID()),
      kinds,
      least,
      token,
      leaseMs,
      // Nothing can bring the results of a call that has ended without its answer: then its inputs are requested again.
      deadlineMs: isDelivered(deps, bulk) ? deps.policy.bulk.deadlineMs : leaseMs,
      size: bulk.size,
    })
    leased.push(...created)
  }
  return leased
}

/** Posts one job and classifies the answer. Throws only errors that are not the service's. */
export async function postJob(
  deps: Pick<CallDeps, 'breaker' | 'client' | 'log' | 'webhookUrl'>,
  job: jobs.OutgoingJob,
  observer: PermittedCall,
): Promise<PostedJob> {
  try {
    const accepted = await deps.breaker.execute(
      () =>
        deps.client.submitBulk(
          { inputs: job.inputs, webhookUrl: deps.webhookUrl?.(job.id) ?? null },
          { observer, onEnd: (call) => logCall(deps.log, call, { job: job.id }) },
        ),
      {
        id: job.id,
        attempts: 0,
        kind: toBulkName(job),
      },
    )
    const { delivery, raw } = accepted
    return {
      event: { type: 'accepted', jobId: accepted.jobId, requestIds: accepted.requestIds },
      stop: null,
      cost: 'unbilled',
      delivery:
        delivery === undefined ? null : toFetchedDelivery(`fetched:${job.id}`, job.id, { delivery, raw }),
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const event = classifySubmitError(error, deps.breaker.state !== 'closed')
    return {
      event,
      delivery: toKeptAnswer(`fetched:${job.id}`, job.id, error),
      stop: error.action === 'abort_run' ? error : null,
      cost: !error.maybeSent
        ? undefined
        : error instanceof RateLimitedError
          ? 'throttled'
          : event.type === 'not_accepted'
            ? 'retried'
            : 'unbilled',
    }
  } finally {
    observer.end()
  }
}

/**
 * Classifies a failed submission. If it may have been accepted, it is in doubt and never sent again: a gateway's 502
 * or 504 may come after the job was forwarded. Pure.
 * @param isDown the circuit is open: an outage uses up no attempts
 */
export function classifySubmitError(error: ServiceError, isDown = false): SubmitEvent {
  const reason = describeFailure(error)
  const { retryAfterMs, status } = error
  const done = status === null ? (error.maybeSent ? 'maybe' : 'no') : statusFacts(status).workDone
  const mayBeAccepted = done === 'yes' || done === 'maybe'
  const mayBeBilled = done === 'unlikely'
  switch (error.action) {
    case 'reject':
    case 'abort_run':
      // A success that cannot be read is paid.
      return { type: done === 'yes' ? 'unconfirmed' : 'rejected', reason }
    case 'release':
      return error instanceof AbortedError && mayBeAccepted
        ? { type: 'unconfirmed', reason }
        : { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: false, mayBeBilled }
    case 'retry':
      return mayBeAccepted
        ? { type: 'unconfirmed', reason }
        : { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: !isDown, mayBeBilled }
  }
}

interface PostedJob {
  readonly event: SubmitEvent
  readonly stop: ServiceError | null
  readonly cost: jobs.SubmittedJob['call']
  /** What came in the answer: its results, or what could not be read. */
  readonly delivery: ReceivedDelivery | null
}

interface SubmissionResult {
  readonly job: jobs.SubmittedJob
  /** The service rejects the key, the account or the client: the inputs are not at fault, and may go in bulk again. */
  readonly isGlobalRejection: boolean
  readonly delivery: PostedJob['delivery']
}

/** What is recorded of a posted job. */
export function toSubmissionResult(
  deps: Pick<CallDeps, 'adapter' | 'now' | 'policy' | 'random' | 'webhookUrl'>,
  job: jobs.OutgoingJob,
  token: string,
  { event, stop, cost, delivery }: PostedJob,
): SubmissionResult {
  const bulk = deps.adapter[toBulkName(job)]
  return {
    job: {
      id: job.id,
      token,
      call: cost,
      mayBeBilled: event.type === 'not_accepted' && event.mayBeBilled,
      ...(event.type === 'accepted' &&
        delivery === null &&
        awaitResults(deps, event.jobId, isDelivered(deps, bulk))),
      ...afterSubmit(job, event, deps.policy, deps.now(), deps.random()),
    },
    isGlobalRejection: stop !== null,
    delivery,
  }
}

export async function recordSubmissions(
  deps: Pick<CallDeps, 'db' | 'log' | 'service'>,
  results: SubmissionResult[],
): Promise<void> {
  const submitted = results.map(({ job }) => job)
  const rejected = results.filter(({ job }) => job.state === Job.rejected)
  const rejectedKeys = (isGlobalRejection: boolean): string[] =>
    rejected.filter((rejection) => rejection.isGlobalRejection === isGlobalRejection).map(({ job }) => job.id)
  const unconfirmed = submitted.filter((job) => job.mayBeBilled).map((job) => job.id)
  const answers = results.flatMap(({ delivery }) => delivery ?? [])
  const persist = (): Promise<void> =>
    // Usually all were accepted, and one statement suffices.
    rejected.length + unconfirmed.length + answers.length === 0
      ? jobs.recordJobSubmissions(deps.db, submitted)
      : inTransaction(deps.db, async (tx) => {
          await jobs.recordJobSubmissions(tx, submitted)
          // With the job: an answer is never lost between the two, nor awaited once it is stored.
          await insertDeliveries(tx, answers, deps.service)
          await lookups.addUnconfirmedCalls(tx, unconfirmed)
          await lookups.requeueSingly(tx, rejectedKeys(false), {
            reason: 'its bulk submission was rejected',
            mayBeBilled: false,
            attempts: null,
          })
          await lookups.requeueMembers(tx, rejectedKeys(true), 'the service refused the call')
        })
  await retryWhileUnavailable(persist, {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error, ms) =>
      deps.log.debug(
        { event: 'answers_wait', reason: describeError(error), ms },
        'submissions wait for Postgres',
      ),
  })
}
