import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import { overdueJobsSql } from './jobs.ts'
import type { Database } from './open.ts'

export interface JobGroup {
  readonly state: JobState
  readonly jobs: number
  readonly emails: number
  /** When the oldest of them was created. */
  readonly oldest: Date
  /** The first deadline of those that wait for a delivery; null if none does. */
  readonly deadline: Date | null
  /** How many are past their deadline, or expired without a delivery since. */
  readonly overdue: number
}

/** Jobs by state; unfinished ones come first. */
export async function listJobGroups(db: Database): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select state, count(*) as jobs, sum(size)::bigint as emails, min(created_at) as oldest,
           min(deadline_at) filter (where finished_at is null) as deadline,
           (select count(*) from ${overdueJobsSql} late where late.state = j.state) as overdue
      from fillrate.jobs j group by state
     order by array_position(array['submitting', 'submitted', 'in_doubt', 'expired', 'failed', 'rejected', 'completed'],
                             state)`.execute(db)
  return rows
}
