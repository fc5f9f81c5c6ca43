import { ConfigProblems } from '../config/problems.ts'
import { Job, type JobState } from '../domain/job.ts'
import { Run, type RunState } from '../domain/run.ts'
import type { Deps } from '../pipeline/deps.ts'
import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'
import { inTransaction } from '../store/transaction.ts'
import type { AuditEnd } from './audit.ts'

/** A cancelled run. */
interface CancelledRun {
  readonly run: number
  /** `running`: its process still finishes what is under way. */
  readonly state: RunState
  readonly reason: string | null
}

/**
 * Cancels a run of any process. Its process stops taking work within seconds, finishes what is under way,
 * and ends the run as interrupted. Waiting rows stay waiting, and the next run continues with them.
 * @param by who cancels it, for the reason of the run
 * @throws ConfigProblems if there is no such run, or if it has ended
 */
export async function cancelRun(db: Database, run: number, by: string): Promise<CancelledRun> {
  const isRunning = await runs.cancelRunningRun(db, run, by)
  const found = await runs.findRun(db, run)
  if (!isRunning || found === null) throw createNotRunningProblem(run, found)
  return { run, state: found.state, reason: found.reason }
}

/** How a cancellation ended, for the audit list. */
export const describeCancelled = ({ state, reason }: CancelledRun): AuditEnd => ({
  outcome: 'done',
  detail: state === Run.running ? 'it finishes what is under way' : reason,
})

const createNotRunningProblem = (run: number, found: runs.StoredRun | null): ConfigProblems =>
  new ConfigProblems('the command', [
    {
      place: 'RUN',
      found:
        found === null
          ? `${run}, and there is no such run`
          : `${run}, which has ended (${found.state}${found.reason === null ? '' : `: ${found.reason}`})`,
      expected: 'a run in progress',
      todo: '`fillrate runs` lists them.',
    },
  ])

/** What became of a job. */
interface CancelledJob {
  readonly job: string
  /** Null: nothing was changed; `message` has the reason. */
  readonly state: JobState | null
  /** Inputs that the next run requests again. */
  readonly requeued: number
  /** Of these, inputs that the service may already have processed and may bill again. */
  readonly possibly_billed: number
  readonly message: string
}

/**
 * Stops waiting for the delivery of a job at the operator's request: the next run requests its inputs one by one. A late
 * delivery is still accepted.
 * @returns null if there is no such job
 */
export function cancelJob(deps: Pick<Deps, 'db' | 'log'>, id: string): Promise<CancelledJob | null> {
  return inTransaction(deps.db, async (tx) => {
    const [job, ...others] = await jobs.lockJobs(tx, id)
    if (job === undefined) return null
    const unchanged = (message: string): CancelledJob => ({
      job: job.id,
      state: null,
      requeued: 0,
      possibly_billed: 0,
      message,
    })
    const keys = [job, ...others].map(({ id: key }) => key).join(', ')
    if (others.length > 0)
      return unchanged(`several services have a job of this identifier. Give the key of one: ${keys}`)
    if (job.held) return unchanged('it is being posted right now')
    if (job.hasResults) return unchanged('its results are stored, and the next run uses them')
    const isPosted = job.state === Job.submitted || job.state === Job.inDoubt
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
    await jobs.giveUpJobs(tx, [job.id], 'cancelled, before its deadline')
    const requeued = await requeueInputs()
    deps.log.warn({ event: 'jobs_expired', job: job.id, freed: requeued }, 'job cancelled')
    return {
      job: job.id,
      state: Job.expired,
      requeued,
      possibly_billed: isPosted || isUnread ? requeued : 0,
      message: 'the next run requests its inputs one by one',
    }
  })
}
