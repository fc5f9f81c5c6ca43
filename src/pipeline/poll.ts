import * as jobs from '../store/job-polls.ts'
import { nextPollAt, Delivery, INCOMPLETE_PAGES, isUsefulPage } from '../domain/job.ts'
import { pollsCountAs } from '../domain/service/documented-limit.ts'
import type { JobProgress } from '../domain/service/messages.ts'
import {
  MalformedResponseError,
  OutOfCreditsError,
  ServiceError,
  UnauthorizedError,
} from '../service/errors.ts'
import { OUT_OF_CREDITS } from '../service/response-errors.ts'
import type { PermittedCall } from '../service/rate-limit/permits.ts'
import { insertDeliveries, takePages, type ReceivedDelivery } from '../store/deliveries.ts'
import { giveUpJobs } from '../store/jobs.ts'
import { requeueSingly } from '../store/lookups.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { firstPollMs, type CallDeps, type Deps } from './deps.ts'
import { withGrantedCalls } from './granted-calls.ts'
import { allowedByBreaker, describeFailure, logCall } from './look-up/call-service.ts'
import { submitLeaseMs } from './submit.ts'
import { listItems } from '../domain/json.ts'
import type { Database } from '../store/open.ts'
import { joinPages } from '../webhook/event.ts'
import { toFetchedDelivery, toPage } from './receive.ts'

/** Jobs fetched per tick. */
const POLLS_PER_TICK = 20

interface PollResult {
  readonly polled: number
  /** Jobs whose results came, and wait to be settled. */
  readonly fetched: number
  readonly stop: ServiceError | null
}

const NOTHING_POLLED: PollResult = { polled: 0, fetched: 0, stop: null }

/**
 * Fetches jobs of a scope whose results have not been delivered: a lost delivery is not waited out, and a service without
 * webhooks has no other way. Results are stored as a delivery, unless one has come meanwhile.
 */
export async function pollJobs(
  deps: CallDeps,
  scope: string,
  options: { readonly signal: AbortSignal },
): Promise<PollResult> {
  if (!deps.adapter.poll) return NOTHING_POLLED
  const { breaker, client } = deps
  // A job is paid for: it is fetched, whether there are credits left or not.
  const byBreaker = breaker.isOutOfCredits ? client.callsAllowedByKey : allowedByBreaker(deps, deps.now())
  const allowed = Math.min(POLLS_PER_TICK, byBreaker)
  const wanted = allowed === 0 ? 0 : await jobs.countDueJobs(deps.db, scope, allowed)
  if (wanted === 0) return NOTHING_POLLED
  const endpoint = pollsCountAs(deps.adapter.rateLimits)
  const calls = { wanted, endpoint, priority: 'normal', signal: options.signal } as const
  const result = await withGrantedCalls(deps, calls, async ({ permits, slots, each }) => {
    const leaseMs = submitLeaseMs(permits, slots, deps.policy.timeoutMs)
    const due = await jobs.claimDueJobs(deps.db, { scope, limit: permits, leaseMs })
    const polls = await each(due, (job, observer) => pollJob(deps, job, observer))
    const fetched = await recordPolls(deps, polls)
    return { polled: polls.length, fetched, stop: polls.find(({ stop }) => stop !== null)?.stop ?? null }
  })
  return result ?? NOTHING_POLLED
}

interface Poll {
  readonly job: jobs.PolledJob
  readonly reading: JobProgress
  readonly retryAfterMs: number | null
  readonly stop: ServiceError | null
}

/** A poll that fails is one that was not ready: the next one comes later. */
export async function pollJob(
  deps: Pick<CallDeps, 'adapter' | 'breaker' | 'client' | 'log'>,
  job: jobs.PolledJob,
  observer: PermittedCall,
): Promise<Poll> {
  let reading: JobProgress = { outcome: 'pending' }
  try {
    await deps.breaker.execute(async () => {
      reading = await deps.client.fetchJob(job, {
        observer,
        onEnd: (call) => logCall(deps.log, call, { job: job.id }),
      })
      // A job of before says nothing of the account as it is now.
      if (reading.outcome === 'unpaid' && deps.breaker.isNewsOfCredits(job.submittedAt))
        throw new OutOfCreditsError(OUT_OF_CREDITS, { endpoint: deps.adapter.poll?.endpoint ?? '' })
    })
    return { job, reading, retryAfterMs: null, stop: null }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    // Only the key and the account stop all calls: a service that delivers needs no poll.
    const isForAll = error instanceof UnauthorizedError || error instanceof OutOfCreditsError
    const stop = isForAll && error.action === 'abort_run' ? error : null
    const isFetched = (reading as JobProgress).outcome === 'unpaid'
    if (
      !isFetched &&
      (['abort_run', 'reject'].includes(error.action) || error instanceof MalformedResponseError)
    )
      deps.log.warn(
        { event: 'job_not_fetched', job: job.id, reason: describeFailure(error) },
        'a job could not be fetched; it is tried again later',
      )
    return { job, reading, retryAfterMs: error.retryAfterMs, stop }
  } finally {
    observer.end()
  }
}

/** @returns how many jobs got results that had not been delivered */
export async function recordPolls(
  deps: Pick<CallDeps, 'adapter' | 'db' | 'log' | 'now' | 'policy' | 'service' | 'webhookUrl'>,
  polls: readonly Poll[],
): Promise<number> {
  const scheduled = polls.map(({ job, reading, retryAfterMs }) => ({
    id: job.id,
    job,
    reading,
    // Pages that follow each other are no polls in vain.
    pollAt: nextPollAt(
      { ...job, polls: job.polls - job.pages },
      { firstMs: firstPollMs(deps.adapter, !job.isSingle && deps.webhookUrl !== null), retryAfterMs },
      deps.now(),
    ),
  }))
  return inTransaction(deps.db, async (tx) => {
    const awaited = new Set(
      await jobs.schedulePolls(
        tx,
        scheduled.map(({ id, job, pollAt }) => ({ id, polls: job.polls, pollAt })),
      ),
    )
    const open = scheduled.filter(({ id }) => awaited.has(id))
    await storePages(tx, deps, open)
    const deliveries = await toDeliveries(tx, open)
    await insertDeliveries(tx, deliveries, deps.service)
    const unpaid = await jobs.endUnpaidJobs(
      tx,
      open.filter(({ reading }) => reading.outcome === 'unpaid').map(({ id }) => id),
    )
    const gone = open
      .filter(({ id, reading, job }) => isOver(reading) && job.pages === 0 && !unpaid.includes(id))
      .map(({ id }) => id)
    const reason = 'the service has no such job any more'
    await giveUpJobs(tx, gone, reason)
    await requeueSingly(tx, gone, {
      reason,
      mayBeBilled: true,
      attempts: deps.policy.attempts,
    })
    if (deliveries.length + gone.length + unpaid.length > 0)
      deps.log.info(
        { event: 'jobs_fetched', jobs: deliveries.length, gone: gone.length, unpaid: unpaid.length },
        'fetched jobs that were not delivered',
      )
    return deliveries.length
  })
}

// Results that come page by page. Each page is stored with the cursor of the next one, in one transaction, and the last one makes one
// delivery of them all: matched, billed and settled as if it had come at once. The order of results counts over all pages.

/** A job that was fetched, and is still awaited. */
interface FetchedJob {
  readonly job: jobs.PolledJob
  readonly reading: JobProgress
  /** When it is fetched next. */
  readonly pollAt: Date | null
}

/** Stores pages, and fetches their jobs at once again if these bring them further. A job whose results are complete begins anew. */
async function storePages(
  tx: Tx,
  deps: Pick<Deps, 'now' | 'service'>,
  fetched: readonly FetchedJob[],
): Promise<void> {
  const pages = fetched.flatMap(({ job, reading, pollAt }) => {
    if (reading.outcome !== 'more') return []
    const { cursor, delivery } = reading
    const isUseful = isUsefulPage(
      { pages: job.pages, size: job.emails.length },
      listItems(delivery.results).length,
    )
    return [{ job, cursor, pollAt, page: isUseful ? toPage(job, delivery) : null }]
  })
  const stored = new Set(
    await insertDeliveries(
      tx,
      pages.flatMap(({ page }) => page ?? []),
      deps.service,
    ),
  )
  const advanced = pages.map(({ job, cursor, pollAt, page }) => {
    // One that was fetched before, with the same cursor, leads in a circle.
    const isFurther = page?.state === Delivery.partial && stored.has(page.contentForJob)
    return {
      id: job.id,
      cursor,
      pages: job.pages + Number(isFurther),
      pollAt: isFurther && pollAt !== null ? new Date(deps.now()) : pollAt,
    }
  })
  const ended = fetched.flatMap(({ job, reading, pollAt }) =>
    job.cursor !== null && reading.outcome === 'results'
      ? [{ id: job.id, cursor: null, pages: 0, pollAt }]
      : [],
  )
  await jobs.advancePages(tx, [...advanced, ...ended])
}

/** Nothing more comes of a job. */
const isOver = ({ outcome }: JobProgress): boolean => outcome === 'gone' || outcome === 'unpaid'

/** The results of jobs, the pages that were stored before among them. What is left of a job that is gone is all that comes. */
async function toDeliveries(tx: Tx, fetched: readonly FetchedJob[]): Promise<ReceivedDelivery[]> {
  const paged = fetched.filter(
    ({ job, reading }) => job.pages > 0 && (reading.outcome === 'results' || isOver(reading)),
  )
  const stored = await takePages(
    tx,
    paged.map(({ job }) => job.id),
  )
  return fetched.flatMap(({ job: { id, polls: nth }, reading }) => {
    const eventId = `fetched:${id}:${nth}`
    const pages = stored.get(id)?.bodies ?? []
    if (reading.outcome === 'results') {
      const { status = 'completed' } = reading.delivery
      const last = toFetchedDelivery(eventId, id, { delivery: { ...reading.delivery, status }, raw: null })
      if (pages.length === 0) return [last]
      // A last page that cannot be read is kept for inspection: what its inputs came to is not known.
      return last.body === null
        ? [last, joined(eventId, id, pages, 'failed')]
        : [joined(eventId, id, [...pages, last.body], status)]
    }
    return isOver(reading) && pages.length > 0 ? [joined(eventId, id, pages, 'failed')] : []
  })
}

/**
 * Makes deliveries of pages that nothing follows: the last one was not fetched before the deadline, or the results came otherwise. Inputs
 * without a result go on waiting.
 * @returns how many
 */
export function receiveLeftPages(db: Database, limit: number): Promise<number> {
  return inTransaction(db, async (tx) => {
    const taken = await takePages(tx, await jobs.lockJobsOfLeftPages(tx, limit))
    for (const [id, { bodies, service }] of taken)
      await insertDeliveries(tx, [joined(`fetched:${id}:pages`, id, bodies, INCOMPLETE_PAGES)], service)
    return taken.size
  })
}

const joined = (eventId: string, job: string, pages: readonly string[], status: unknown): ReceivedDelivery =>
  toFetchedDelivery(eventId, job, { delivery: { ...joinPages(pages), status }, raw: null })
