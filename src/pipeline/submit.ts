import { randomUUID } from 'node:crypto'
import pLimit from 'p-limit'
import { afterSubmit, Job, type SubmitEvent } from '../domain/job.ts'
import { routeEmails } from '../domain/route.ts'
import { toPriority } from '../domain/run.ts'
import { AbortedError, RateLimitedError, ServiceError } from '../service/errors.ts'
import type { Permits, PermittedCall } from '../service/rate-limit/permits.ts'
import { releaseWithin, retryWhileUnavailable } from '../store/connectivity.ts'
import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import type { RunningRun } from '../store/runs.ts'
import { inTransaction } from '../store/transaction.ts'
import { createBatcher } from '../util/batcher.ts'
import { LEASE_MS, type CallDeps } from './deps.ts'
import { allowedByBreaker, describeFailure } from './look-up/call-service.ts'

/** Jobs posted per tick. */
const JOBS_PER_TICK = 10

export interface SubmitResult {
  readonly submitted: number
  readonly emails: number
  readonly calls: number
  readonly throttled: number
  readonly stop: ServiceError | null
}

const NOTHING_SUBMITTED: SubmitResult = { submitted: 0, emails: 0, calls: 0, throttled: 0, stop: null }

/**
 * Posts jobs: first those that the service certainly did not accept before, then new ones from the run's waiting
 * emails. A job and its members are committed before the call, and its webhook URL holds its own key: the delivery
 * finds the job even if the 202 is lost.
 */
export async function submitJobs(
  deps: CallDeps,
  run: RunningRun,
  options: { readonly signal: AbortSignal },
): Promise<SubmitResult> {
  const { webhookUrl } = deps
  const { bulkFrom } = routeEmails({
    option: run.options.route,
    bulkPossible: webhookUrl !== null,
    picking: run.picking,
    minimum: deps.policy.bulkMinimum,
  })
  if (webhookUrl === null || bulkFrom === null) return NOTHING_SUBMITTED
  const allowed = Math.min(JOBS_PER_TICK, allowedByBreaker(deps, deps.now()))
  if (allowed === 0) return NOTHING_SUBMITTED
  const submittable = await jobs.findSubmittable(deps.db, run.id, bulkFrom)
  if (!submittable.hasNew && !submittable.hasRetries) return NOTHING_SUBMITTED

  const priority = toPriority(run.trigger)
  // Take slots first: a lease that waits for a slot would expire before its job is posted, and single calls would
  // take the slots while this one waits for permits.
  await deps.slots.wait(priority, options.signal, true)
  const slots = deps.slots.take(allowed, priority, true)
  let heldSlots = slots
  const releaseSlots = (count: number): void => {
    heldSlots -= count
    deps.slots.release(count)
  }
  let permits: Permits | null = null
  try {
    if (slots === 0) return NOTHING_SUBMITTED
    permits = await deps.limiter.acquire(allowed, priority, options.signal).catch((error: unknown) => {
      if (options.signal.aborted) return null
      throw error
    })
    if (permits === null) return NOTHING_SUBMITTED
    const grantedPermits = permits
    const token = randomUUID()
    const outgoingJobs = await leaseJobs(deps, run, {
      limit: grantedPermits.count,
      token,
      least: bulkFrom,
      again: submittable.hasRetries,
      leaseMs: submitLeaseMs(grantedPermits.count, slots, deps.policy.callTimeoutMs),
    }).catch(async (error: unknown) => {
      // The leases may be committed although the response was lost. Nothing was posted under this token, so nothing
      // is in doubt.
      await releaseWithin(LEASE_MS, () => jobs.releaseJobs(deps.db, token))
      throw error
    })
    releaseSlots(Math.max(0, slots - outgoingJobs.length))
    // With fewer slots than jobs, each slot posts several jobs in turn, and is released when none is left.
    const limitToSlots = pLimit(slots)
    const recordResult = createBatcher((results: SubmissionResult[]) => recordSubmissions(deps, results))
    const posts = outgoingJobs.map((job) => {
      const call = grantedPermits.use()
      return limitToSlots(async () => {
        const { event, stop, throttled } = await postJob(deps, job, webhookUrl(job.id), call)
        await recordResult({
          id: job.id,
          token,
          isGlobalRejection: stop !== null,
          mayBeBilled: event.type === 'not_accepted' && event.mayBeBilled,
          ...afterSubmit(job, event, deps.policy, deps.now(), deps.random()),
        })
        if (limitToSlots.pendingCount === 0) releaseSlots(1)
        return { accepted: event.type === 'accepted', emails: job.emails.length, stop, throttled }
      })
    })
    const results = await Promise.all(posts).finally(() => Promise.allSettled(posts))
    const accepted = results.filter((result) => result.accepted)
    return {
      submitted: accepted.length,
      emails: accepted.reduce((sum, result) => sum + result.emails, 0),
      calls: results.length,
      throttled: results.filter((result) => result.throttled).length,
      stop: results.find((result) => result.stop !== null)?.stop ?? null,
    }
  } finally {
    permits?.release()
    releaseSlots(heldSlots)
  }
}

/**
 * Lease duration of a submission. It is not extended during the call, so it must outlast the timeouts of all calls
 * that its slot makes. Pure.
 */
export function submitLeaseMs(jobs: number, slots: number, callTimeoutMs: number): number {
  return Math.ceil(jobs / slots) * callTimeoutMs + LEASE_MS + 60_000
}

/** Leases jobs that were certainly not accepted before, then creates new ones. */
async function leaseJobs(
  deps: CallDeps,
  run: RunningRun,
  options: {
    readonly limit: number
    readonly token: string
    readonly least: number
    /** Include jobs that were not accepted before. */
    readonly again: boolean
    readonly leaseMs: number
  },
): Promise<jobs.OutgoingJob[]> {
  const { limit, token, least: minimum, leaseMs } = options
  const retries = options.again
    ? await jobs.leaseJobsForRetry(deps.db, { run: run.id, limit, token, leaseMs })
    : []
  if (retries.length === limit) return retries
  const created = await jobs.createJobs(deps.db, {
    run: run.id,
    ids: Array.from({ length: limit - retries.length }, () => randomUUID()),
    least: minimum,
    token,
    leaseMs,
    deadlineMs: deps.policy.bulkDeadlineMs,
  })
  return [...retries, ...created]
}

async function postJob(
  deps: CallDeps,
  job: jobs.OutgoingJob,
  webhookUrl: string,
  observer: PermittedCall,
): Promise<{ event: SubmitEvent; stop: ServiceError | null; throttled: boolean }> {
  try {
    const accepted = await deps.breaker.execute(() =>
      deps.client.submitBulk({ emails: job.emails, webhookUrl }, { observer }),
    )
    return {
      event: { type: 'accepted', jobId: accepted.jobId, requestIds: accepted.requestIds },
      stop: null,
      throttled: false,
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return {
      event: classifySubmitError(error, deps.breaker.state !== 'closed'),
      stop: error.action === 'abort_run' ? error : null,
      throttled: error instanceof RateLimitedError,
    }
  } finally {
    observer.end()
  }
}

/** Statuses by which the service itself says that it did not accept the job; its interface says to retry them. */
const NOT_ACCEPTED_STATUSES: ReadonlySet<number> = new Set([403, 429, 500, 503])

/**
 * Classifies a failed submission. If it may have been accepted, it is in doubt and never sent again: a gateway's 502
 * or 504 may come after the job was forwarded. Pure.
 * @param isDown the circuit is open: an outage uses up no attempts
 */
export function classifySubmitError(error: ServiceError, isDown = false): SubmitEvent {
  const reason = describeFailure(error)
  const { retryAfterMs, status } = error
  const mayBeAccepted = status === null ? error.maybeSent : !NOT_ACCEPTED_STATUSES.has(status)
  const mayBeBilled = status === 500
  switch (error.action) {
    case 'reject':
    case 'abort_run':
      return { type: 'rejected', reason }
    case 'rotate_key':
      return { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: false, mayBeBilled }
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

interface SubmissionResult extends jobs.SubmittedJob {
  /** The service rejects the key or the client: the inputs are not at fault, and may go in bulk again. */
  readonly isGlobalRejection: boolean
  /** It may have been accepted and billed all the same. */
  readonly mayBeBilled: boolean
}

async function recordSubmissions(deps: CallDeps, results: SubmissionResult[]): Promise<void> {
  const rejected = results.filter((job) => job.state === Job.rejected)
  const rejectedKeys = (isGlobalRejection: boolean): string[] =>
    rejected.filter((job) => job.isGlobalRejection === isGlobalRejection).map((job) => job.id)
  const unconfirmed = results.filter((job) => job.mayBeBilled).map((job) => job.id)
  const persist = (): Promise<void> =>
    // Usually all were accepted, and one statement suffices.
    rejected.length + unconfirmed.length === 0
      ? jobs.recordJobSubmissions(deps.db, results)
      : inTransaction(deps.db, async (tx) => {
          await jobs.recordJobSubmissions(tx, results)
          await lookups.addUnconfirmedCalls(tx, unconfirmed)
          await lookups.requeueSingly(tx, rejectedKeys(false), {
            reason: 'its bulk submission was rejected',
            mayBeBilled: false,
            attempts: null,
          })
          await lookups.requeueMembers(tx, rejectedKeys(true), 'the service rejected the key')
        })
  await retryWhileUnavailable(persist, {
    conflicts: Number.POSITIVE_INFINITY,
    onWait: (error, ms) => deps.log.warn({ reason: error.message, ms }, 'submissions wait for Postgres'),
  })
}
