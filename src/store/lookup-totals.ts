import { sql } from 'kysely'
import { ANSWERED } from './lookups.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

export interface LookupTotals {
  readonly requested: number
  readonly found: number
  readonly notFound: number
  readonly rejected: number
  readonly failed: number
  readonly inDoubt: number
}

/** What a run asked and what came of it. */
export async function totalsOf(db: Connection, run: number): Promise<LookupTotals> {
  const { rows } = await sql<LookupTotals>`
    select count(*) filter (where requested_at is not null) as requested,
           count(*) filter (where state = 'found') as found,
           count(*) filter (where state = 'not_found') as "notFound",
           count(*) filter (where state = 'rejected') as rejected,
           count(*) filter (where state = 'failed') as failed,
           coalesce(sum(unconfirmed_calls), 0)::bigint as "inDoubt"
      from fillrate.lookups where run_id = ${run}`.execute(db)
  return rows[0] ?? { requested: 0, found: 0, notFound: 0, rejected: 0, failed: 0, inDoubt: 0 }
}

/** The distinct lookups that a run's rows wanted, those that found nothing among them. */
export async function countOf(db: Connection, run: number): Promise<{ distinct: number; stored: number }> {
  const { rows } = await sql<{ distinct: number; stored: number }>`
    with wanted as (
      select lookup_id as id from fillrate.rows where run_id = ${run} and lookup_id is not null
      union select unnest(missed_lookup_ids) from fillrate.rows where run_id = ${run} and missed_lookup_ids <> '{}'
      union select id from fillrate.lookups where run_id = ${run} and requested_at is not null
    )
    select count(*) as distinct,
           count(*) filter (where l.state in (${ANSWERED})
                              and (l.run_id is distinct from ${run} or l.requested_at is null)) as stored
      from wanted join fillrate.lookups l using (id)`.execute(db)
  return rows[0] ?? { distinct: 0, stored: 0 }
}

/** How often a lookup has found something at a service so far, over all that were decided. */
export async function matchesSoFar(
  db: Connection,
  service: number,
): Promise<{ found: number; asked: number }> {
  const { rows } = await sql<{ found: number; asked: number }>`
    select count(*) filter (where state = 'found') as found, count(*) as asked
      from fillrate.lookups where state in ('found', 'not_found') and service_id = ${service}`.execute(db)
  return rows[0] ?? { found: 0, asked: 0 }
}
