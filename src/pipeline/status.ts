import type { DeliveryState } from '../domain/delivery.ts'
import type { JobState } from '../domain/job.ts'
import type { RowState } from '../domain/row.ts'
import * as deliveries from '../store/deliveries.ts'
import * as jobs from '../store/jobs.ts'
import type { Database } from '../store/open.ts'
import type { KnownLimit } from '../store/rate-limits.ts'
import * as pauses from '../store/pauses.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'

/** How things stand, from Fillrate's own tables alone: cheap enough to ask every few seconds. */
export interface Status {
  readonly rows: Readonly<Record<string, { readonly total: number } & Record<RowState, number>>>
  readonly jobs: Partial<Record<JobState, number>>
  readonly deliveries: Partial<Record<DeliveryState, number>>
  /** Results that match no input of their job: kept in their deliveries, and used for none. */
  readonly quarantined_results: number
  readonly limit: KnownLimit | null
  readonly running_runs: number
  readonly last_run: runs.StoredRun | null
  /** Sources that no run picks from. */
  readonly paused: readonly pauses.Pause[]
}

export async function status(
  db: Database,
  sources: readonly string[],
  scope: string | null,
): Promise<Status> {
  const bySource = await Promise.all(
    sources.map(async (name) => {
      const states = await rows.countStates(db, { sources: [name] })
      return [
        name,
        { total: Object.values(states).reduce((sum, count) => sum + count, 0), ...states },
      ] as const
    }),
  )
  return {
    rows: Object.fromEntries(bySource),
    jobs: await jobs.countStates(db, null),
    deliveries: await deliveries.countStates(db),
    quarantined_results: await deliveries.countQuarantinedResults(db),
    limit: scope === null ? null : await rateLimits.recall(db, scope),
    running_runs: (await runs.live(db)).length,
    last_run: (await runs.list(db, 1))[0] ?? null,
    paused: await pauses.list(db),
  }
}
