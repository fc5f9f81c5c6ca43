import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import { isOpenMemberSql } from './lookups.ts'
import { isHeldSql, NOW } from './sql.ts'
import type { Tx } from './transaction.ts'

// What an operator does with a job.

interface LockedJob {
  readonly id: string
  readonly state: JobState
  /** A living process is submitting it. */
  readonly held: boolean
  /** Members that still wait for their result. */
  readonly open: number
}

/** Locks a job, found by our key or by the service's id, so that no delivery completes it meanwhile. */
export async function lockJob(tx: Tx, id: string): Promise<LockedJob | null> {
  const { rows } = await sql<LockedJob>`
    select j.key as id, j.state, j.lease_token is not null and ${isHeldSql(sql`j.leased_until`)} as held,
           (select count(*) from unnest(j.lookup_ids) as m (id) join fillrate.lookups l on l.id = m.id
             where ${isOpenMemberSql('j.key')}) as open
      from fillrate.jobs j where j.key::text = ${id.toLowerCase()} or j.job_id = ${id}
     order by j.created_at desc limit 1 for no key update of j`.execute(tx)
  return rows[0] ?? null
}

/** Gives a job up before its deadline: it expires, or is rejected if the service certainly did not accept it. */
export async function expireJobNow(tx: Tx, id: string, reason: string): Promise<void> {
  await sql`
    update fillrate.jobs
       set state = case when state = 'submitting' then 'rejected' else 'expired' end, reason = ${reason},
           finished_at = now(), lease_token = null, leased_until = null, not_before = null
     where key = ${id}`.execute(tx)
}

/** Makes a job that the service did not accept due now, without the rest of its backoff. */
export async function submitJobNow(tx: Tx, id: string): Promise<void> {
  await tx.updateTable('fillrate.jobs').set({ not_before: NOW }).where('key', '=', id).execute()
}
