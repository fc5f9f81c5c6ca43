import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import { Run } from '../domain/run.ts'
import { interval } from './batch.ts'
import type { Database } from './open.ts'

export interface JobGroup {
  readonly state: JobState
  readonly jobs: number
  readonly emails: number
  /** When the oldest of them was made. */
  readonly oldest: Date
  /** The first deadline of those that wait for a delivery; null where none does. */
  readonly deadline: Date | null
  /** Of these, those past their deadline. */
  readonly overdue: number
}

/** Jobs by state, those first that still wait for something. */
export async function jobGroups(db: Database): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select state, count(*) as jobs, sum(size)::bigint as emails, min(created_at) as oldest,
           min(deadline_at) filter (where finished_at is null) as deadline,
           count(*) filter (where finished_at is null and deadline_at < now()) as overdue
      from fillrate.jobs group by state
     order by array_position(array['submitting', 'submitted', 'in_doubt', 'expired', 'failed', 'rejected', 'completed'],
                             state)`.execute(db)
  return rows
}

export interface Spent {
  /** Lookups that the service was asked. */
  readonly asked: number
  /** Cells written. */
  readonly written: number
  readonly runs: number
}

/** What the runs of the last so many milliseconds asked and wrote, as they told it when they ended. */
export async function spentWithin(db: Database, ms: number): Promise<Spent> {
  const { rows } = await sql<Spent>`
    select coalesce(sum((totals #>> '{lookups,asked}')::bigint), 0)::bigint as asked,
           coalesce(sum((totals #>> '{cells,written}')::bigint)
             filter (where options -> 'dry' is distinct from 'true'), 0)::bigint as written,
           count(*) as runs
      from fillrate.runs
     where started_at > now() - ${interval(ms)} and state <> ${Run.running}
       and options -> 'undoes' is null`.execute(db)
  return rows[0] ?? { asked: 0, written: 0, runs: 0 }
}

/** How long the oldest delivery that nobody has settled has waited, in seconds; 0 where none waits. */
export async function oldestDelivery(db: Database): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`.execute(db)
  return rows[0]?.seconds ?? 0
}
