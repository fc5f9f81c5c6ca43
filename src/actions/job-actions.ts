import { Job, type JobState } from '../domain/job.ts'
import type { Deps } from '../pipeline/deps.ts'
import * as lookups from '../store/lookups.ts'
import { inTransaction } from '../store/transaction.ts'
import * as jobActions from '../store/jobs.ts'

/**
 * - `cancel`: stops waiting for the delivery; the next run requests the inputs one by one
 * - `retry`: posts a job that the service did not accept, without waiting for its backoff
 */
export type JobAction = 'cancel' | 'retry'

interface JobActionResult {
  readonly job: string
  readonly action: JobAction
  /** Null: nothing was changed; `message` has the reason. */
  readonly state: JobState | null
  /** Inputs that the next run requests again. */
  readonly requeued: number
  /** Of these, inputs that the service may already have processed and may bill again. */
  readonly possibly_billed: number
  readonly message: string
}

/**
 * Cancels or retries a job at the operator's request. A late delivery is still accepted.
 * @returns null if there is no such job
 */
export function performJobAction(
  deps: Pick<Deps, 'db' | 'log'>,
  action: JobAction,
  id: string,
): Promise<JobActionResult | null> {
  return inTransaction(deps.db, async (tx) => {
    const job = await jobActions.lockJob(tx, id)
    if (job === null) return null
    const unchanged = (message: string): JobActionResult => ({
      job: job.id,
      action,
      state: null,
      requeued: 0,
      possibly_billed: 0,
      message,
    })
    if (job.held) return unchanged('it is being posted right now')
    const isPosted = job.state === Job.submitted || job.state === Job.inDoubt
    if (action === 'retry') {
      if (job.state === Job.submitting) {
        await jobActions.submitJobNow(tx, job.id)
        return { ...unchanged('the next run posts it'), state: Job.submitting }
      }
      if (isPosted)
        return unchanged(
          job.state === Job.inDoubt
            ? 'it is in doubt whether the service has it: posting it again could be billed twice. `fillrate cancel --job` gives it up'
            : 'the service is working on it. `fillrate cancel --job` gives it up',
        )
      return unchanged('it has finished. The next run requests its unanswered inputs one by one')
    }
    const requeueInputs = (): Promise<number> =>
      lookups.requeueSingly(tx, [job.id], {
        reason: 'its job was cancelled',
        mayBeBilled: job.state !== Job.submitting,
        attempts: null,
      })
    const isUnread = job.state === Job.unread
    if (!isPosted && !isUnread && job.state !== Job.submitting) {
      if (job.open === 0) return unchanged('it has already finished')
      const requeued = await requeueInputs()
      return {
        ...unchanged('it has finished. The next run requests its unanswered inputs one by one'),
        state: job.state,
        requeued,
        possibly_billed: requeued,
      }
    }
    await jobActions.giveUpJobs(tx, [job.id], 'cancelled, before its deadline')
    const requeued = await requeueInputs()
    deps.log.warn({ event: 'jobs_expired', job: job.id, freed: requeued }, 'job cancelled')
    return {
      job: job.id,
      action,
      state: Job.expired,
      requeued,
      possibly_billed: isPosted || isUnread ? requeued : 0,
      message: 'the next run requests its inputs one by one',
    }
  })
}
