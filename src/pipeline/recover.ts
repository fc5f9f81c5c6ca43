import * as deliveries from '../store/deliveries.ts'
import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import * as runs from '../store/runs.ts'
import * as writeBackQueue from '../store/write-back-queue.ts'
import { foldRowCounts } from '../store/rows.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import type { Deps, RunPolicy } from './deps.ts'
import { receiveLeftPages } from './poll.ts'
import { deleteUnneeded } from '../store/pending-lookups.ts'

const RECOVER_BATCH_SIZE = 1_000
/** Lookups that no row waits for: a dry run leaves one for each of its answers. */
const ORPHAN_BATCH_SIZE = 50_000

interface RecoverResult {
  /** Lookups whose lease has expired: their calls may be billed. */
  readonly expiredLeases: number
  readonly interruptedRuns: number
  readonly doubtfulJobs: number
  /** Jobs that would never be posted; their inputs are free for another job. */
  readonly dissolvedJobs: number
  readonly expiredJobs: number
  /** Finished jobs whose unanswered inputs are requested again. */
  readonly releasedJobs: number
  readonly attachedDeliveries: number
}

type RecoverDeps = Pick<Deps, 'db' | 'log'> & { readonly policy: Pick<RunPolicy, 'attempts'> }

/**
 * Cleans up after dead processes: expired leases, abandoned jobs, missed deadlines. Every process does it every few
 * seconds, not only at start-up: the process that died may have been the last to start.
 */
export async function recoverAbandoned(
  deps: RecoverDeps,
  ownRuns: number | readonly number[] | null,
): Promise<RecoverResult> {
  const ownIds = ownRuns === null ? [] : [ownRuns].flat()
  const interrupted = await runs.interruptExpired(deps.db, ownIds)
  const expiredLeases = await lookups.releaseExpiredLookups(deps.db, RECOVER_BATCH_SIZE)
  await deleteUnneeded(deps.db)
  // Before jobs expire: it may be what their inputs wait for.
  const attachedDeliveries = await deliveries.requeueOrphans(deps.db)
  const recovered = (await jobs.hasRecoverableJobs(deps.db)) ? await recoverJobs(deps) : NO_JOBS
  await writeBackQueue.dequeueOrphaned(deps.db, ORPHAN_BATCH_SIZE)
  await foldRowCounts(deps.db)
  if (interrupted.length > 0)
    deps.log.info({ event: 'run_interrupted', runs: interrupted }, 'interrupted runs of dead processes')
  if (expiredLeases > 0)
    deps.log.warn(
      { event: 'calls_in_doubt', lookups: expiredLeases },
      'lease expired during a call; retrying (may be billed twice)',
    )
  const { expiredJobs } = recovered
  if (expiredJobs > 0)
    deps.log.warn(
      { event: 'jobs_expired', jobs: expiredJobs },
      'jobs not delivered in time; requesting their inputs one by one',
    )
  return {
    expiredLeases,
    interruptedRuns: interrupted.length,
    ...recovered,
    attachedDeliveries,
  }
}

type RecoveredJobs = Pick<RecoverResult, 'doubtfulJobs' | 'dissolvedJobs' | 'expiredJobs' | 'releasedJobs'>

const NO_JOBS: RecoveredJobs = {
  doubtfulJobs: 0,
  dissolvedJobs: 0,
  expiredJobs: 0,
  releasedJobs: 0,
}

async function recoverJobs(deps: RecoverDeps): Promise<RecoveredJobs> {
  // First: a job does not expire before its pages are settled.
  await receiveLeftPages(deps.db, RECOVER_BATCH_SIZE)
  const doubtfulJobs = await jobs.markAbandonedInDoubt(deps.db)
  const dissolvedJobs = await inTransaction(deps.db, async (tx) => {
    const dissolved = await jobs.cancelUnsubmitted(tx, RECOVER_BATCH_SIZE)
    await lookups.requeueMembers(tx, dissolved, 'its job was never accepted')
    return dissolved.length
  })
  const expiredJobs = await requestSingly(deps, jobs.expireJobs, 'its job was not delivered in time')
  const releasedJobs = await requestSingly(
    deps,
    deliveries.releaseDueJobs,
    'the delivery held no result for it',
  )
  return { doubtfulJobs, dissolvedJobs, expiredJobs, releasedJobs }
}

/** Requests the inputs of some jobs one by one. @returns how many jobs there were */
const requestSingly = (
  { db, policy: { attempts } }: RecoverDeps,
  take: (tx: Tx, limit: number) => Promise<string[]>,
  reason: string,
): Promise<number> =>
  inTransaction(db, async (tx) => {
    const taken = await take(tx, RECOVER_BATCH_SIZE)
    await lookups.requeueSingly(tx, taken, { reason, mayBeBilled: true, attempts })
    return taken.length
  })
