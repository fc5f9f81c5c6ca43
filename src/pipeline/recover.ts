import { release } from '../store/delivered-jobs.ts'
import * as deliveries from '../store/deliveries.ts'
import * as jobs from '../store/jobs.ts'
import * as lookups from '../store/lookups.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps, Rules } from './deps.ts'

const AT_ONCE = 1_000

export interface RecoverResult {
  /** Leases that ran out: calls that may have been paid for, and lookups that were never asked. */
  readonly expiredLeases: lookups.Expired
  readonly interruptedRuns: number
  readonly doubtfulJobs: number
  /** Jobs that nobody would have posted again; their inputs are free for another. */
  readonly dissolvedJobs: number
  readonly expiredJobs: number
  /** Jobs that are over, and whose inputs without a result are requested again. */
  readonly releasedJobs: number
  readonly attachedDeliveries: number
}

/**
 * Puts right what a process left that is no more, and what time has overtaken. Every process does it every few
 * seconds, not only when it starts: the one that died may have been the last to start.
 */
export async function tick(
  deps: Pick<Deps, 'db' | 'log'> & { readonly rules: Pick<Rules, 'attempts'> },
  ownRuns: number | readonly number[] | null,
): Promise<RecoverResult> {
  const own = ownRuns === null ? [] : [ownRuns].flat()
  const interrupted = await runs.interruptDead(deps.db, own)
  const expiredLeases = await lookups.returnExpired(deps.db, AT_ONCE)
  await lookups.forgetTokens(deps.db)
  const doubtfulJobs = await jobs.doubtAbandoned(deps.db)
  const dissolvedJobs = await inTransaction(deps.db, async (tx) => {
    const dissolved = await jobs.dissolve(tx, AT_ONCE)
    await lookups.askAgain(tx, dissolved, 'its job was never taken')
    return dissolved.length
  })
  const expiredJobs = await inTransaction(deps.db, async (tx) => {
    const expired = await jobs.expire(tx, AT_ONCE)
    await lookups.askSingly(tx, expired, {
      reason: 'its job was not delivered in time',
      mayBeBilled: true,
      attempts: deps.rules.attempts,
    })
    return expired.length
  })
  const releasedJobs = await inTransaction(deps.db, async (tx) => {
    const released = await release(tx, AT_ONCE)
    await lookups.askSingly(tx, released, {
      reason: 'the delivery held no result for it',
      mayBeBilled: true,
      attempts: deps.rules.attempts,
    })
    return released.length
  })
  await inTransaction(deps.db, (tx) => rows.clearUnwanted(tx, AT_ONCE * 5))
  const attachedDeliveries = await deliveries.attachOrphans(deps.db)
  if (interrupted.length > 0)
    deps.log.info({ runs: interrupted }, 'runs whose process is gone were interrupted')
  if (expiredLeases.inDoubt > 0)
    deps.log.warn(
      { lookups: expiredLeases.inDoubt },
      'the process that asked these lookups is gone: they are asked again',
    )
  if (expiredJobs > 0)
    deps.log.warn({ jobs: expiredJobs }, 'jobs were not delivered in time: their inputs are asked singly')
  return {
    expiredLeases,
    interruptedRuns: interrupted.length,
    doubtfulJobs,
    dissolvedJobs,
    expiredJobs,
    releasedJobs,
    attachedDeliveries,
  }
}
