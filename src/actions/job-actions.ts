import { Job, type JobState } from '../domain/job.ts'
import * as jobActions from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps } from '../pipeline/deps.ts'

/**
 * - `expire`: does not wait for the delivery any longer; the inputs are asked singly
 * - `retry`: a job that the service did not take is posted at once; one that ended without results is asked again in
 *   whatever way
 */
export type JobAction = 'expire' | 'retry'

export interface JobActionResult {
  readonly job: string
  readonly action: JobAction
  /** Null: nothing was done, for the reason in `told`. */
  readonly state: JobState | null
  /** Inputs that the next run asks. */
  readonly requeued: number
  /** Of these, those that the service may have worked on already, and may be paid for again. */
  readonly possibly_billed: number
  readonly message: string
}

/** Does what somebody wants with a job. A delivery that comes all the same is still accepted. @returns null: no such job */
export function performJobAction(
  deps: Pick<Deps, 'db' | 'log'>,
  action: JobAction,
  id: string,
): Promise<JobActionResult | null> {
  return inTransaction(deps.db, async (tx) => {
    const job = await jobActions.lockJob(tx, id)
    if (job === null) return null
    const nothing = (message: string): JobActionResult => ({
      job: job.id,
      action,
      state: null,
      requeued: 0,
      possibly_billed: 0,
      message,
    })
    if (job.held) return nothing('it is being posted at this moment')
    const waits = job.state === Job.submitted || job.state === Job.inDoubt
    if (action === 'retry') {
      if (job.state === Job.submitting) {
        await jobActions.submitJobNow(tx, job.id)
        return { ...nothing('the next run posts it at once'), state: Job.submitting }
      }
      if (waits)
        return nothing(
          job.state === Job.inDoubt
            ? 'it is in doubt whether the service has it: to post it again could pay it twice. `jobs expire` gives it up'
            : 'the service works on it. `jobs expire` gives it up',
        )
      return nothing('it has ended. What it left open is asked singly, by the next run')
    }
    const free = (): Promise<number> =>
      lookups.requeueSingly(tx, [job.id], {
        reason: 'its job was given up by hand',
        mayBeBilled: job.state !== Job.submitting,
        attempts: null,
      })
    if (!waits && job.state !== Job.submitting) {
      if (job.open === 0) return nothing('it has ended already')
      const requeued = await free()
      return {
        ...nothing('it is over. The next run asks its inputs without a result singly'),
        state: job.state,
        requeued,
        possibly_billed: requeued,
      }
    }
    await jobActions.expireJobNow(tx, job.id, 'given up by hand, before its deadline')
    const requeued = await free()
    deps.log.warn({ job: job.id, freed: requeued }, 'a job was given up by hand')
    return {
      job: job.id,
      action,
      state: Job.expired,
      requeued,
      possibly_billed: waits ? requeued : 0,
      message: 'the next run asks its inputs singly',
    }
  })
}
