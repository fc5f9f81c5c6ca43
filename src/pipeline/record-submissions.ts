import { afterSubmit, Job, type SubmitEvent } from '../domain/job.ts'
import { toBulkName } from '../domain/service/job-inputs.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { insertDeliveries, type ReceivedDelivery } from '../store/deliveries.ts'
import type { ServiceError } from '../service/errors.ts'
import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import { inTransaction } from '../store/transaction.ts'
import { describeError } from '../util/error-text.ts'
import { awaitResults, type CallDeps, isDelivered } from './deps.ts'

export interface PostedJob {
  readonly event: SubmitEvent
  readonly stop: ServiceError | null
  readonly cost: jobs.SubmittedJob['call']
  /** What came in the answer: its results, or what could not be read. */
  readonly delivery: ReceivedDelivery | null
}

export interface SubmissionResult {
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
    rejected.filter((one) => one.isGlobalRejection === isGlobalRejection).map(({ job }) => job.id)
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
