import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import { listQueuedChanges, type QueuedChanges } from './changed-rows.ts'
import type { Database } from './open.ts'
import { readOne } from './sql.ts'

export interface JobGroup {
  readonly state: JobState
  readonly jobs: number
  /** When the oldest of them was created. */
  readonly oldest: Date
  /** The first deadline of the jobs that wait for a delivery; null if none does. */
  readonly deadline: Date | null
}

/** Jobs by state; unfinished ones come first. */
export async function listJobGroups(db: Database): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select state, count(*) as jobs, min(created_at) as oldest,
           min(deadline_at) filter (where finished_at is null) as deadline
      from fillrate.jobs group by state
     order by array_position(array['submitting', 'submitted', 'in_doubt', 'expired', 'unread', 'failed', 'rejected', 'completed'],
                             state)`.execute(db)
  return rows
}

/** When a run of this trigger and outcome ended last. */
interface RunEnd {
  readonly trigger: string
  /** As in a run's report; the state where a killed run left none. */
  readonly status: string
  readonly at: Date
}

/** What `/metrics` needs beyond the data of the dashboard. */
export interface StoredMetrics {
  readonly runEnds: readonly RunEnd[]
  /** Age of the oldest unsettled delivery; 0 if there is none. */
  readonly oldestDeliverySeconds: number
  readonly backlogs: readonly QueuedChanges[]
}

export async function readStoredMetrics(db: Database): Promise<StoredMetrics> {
  const { rows: runEnds } = await sql<RunEnd>`
    select trigger, coalesce(totals ->> 'status', state) as status, max(finished_at) as at
      from fillrate.runs where finished_at is not null group by 1, 2 order by 1, 2`.execute(db)
  const oldest = sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`
  const oldestDeliverySeconds = (await readOne(db, oldest)).seconds
  return { runEnds, oldestDeliverySeconds, backlogs: await listQueuedChanges(db) }
}
