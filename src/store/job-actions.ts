import { sql } from 'kysely'
import { Job, type JobState } from '../domain/job.ts'
import type { StoreTransaction } from './transaction.ts'

export interface ActedJob {
  readonly id: string
  readonly state: JobState
  /** Its post is under way in a process that is alive. */
  readonly held: boolean
  /** Members that still wait for their result. */
  readonly open: number
}

/** A job by our identifier or by the service's; locked, so that no delivery settles it meanwhile. */
export async function lock(tx: StoreTransaction, id: string): Promise<ActedJob | null> {
  const { rows } = await sql<ActedJob>`
    select j.key as id, j.state, j.lease_token is not null and j.leased_until > now() as held,
           (select count(*) from fillrate.lookups l where l.job_key = j.key and l.state = 'submitted') as open
      from fillrate.jobs j where j.key::text = ${id.toLowerCase()} or j.job_id = ${id}
     order by j.created_at desc limit 1 for no key update of j`.execute(tx)
  return rows[0] ?? null
}

/** Ends a job before its deadline. */
export async function expireNow(tx: StoreTransaction, id: string, reason: string): Promise<void> {
  await sql`
    update fillrate.jobs
       set state = ${Job.expired}, reason = ${reason}, finished_at = now(), lease_token = null, leased_until = null,
           not_before = null
     where key = ${id}`.execute(tx)
}

/** A job that the service did not take is posted at once, and not after its pause. */
export async function postNow(tx: StoreTransaction, id: string): Promise<void> {
  await sql`update fillrate.jobs set not_before = now() where key = ${id}`.execute(tx)
}
