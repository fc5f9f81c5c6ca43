import { sql } from 'kysely'
import { Job } from '../domain/job.ts'
import { Lookup } from '../domain/lookup.ts'
import type { Database } from './open.ts'

/** Lookups under a token were certainly not asked: they may be at once, and nothing is in doubt. */
export async function lookups(db: Database, token: string): Promise<void> {
  await sql`
    update fillrate.lookups set state = ${Lookup.pending}, lease_token = null, leased_until = null
     where state = ${sql.lit(Lookup.leased)} and lease_token = ${token}`.execute(db)
}

/** Jobs under a token were certainly not posted: the same. */
export async function jobs(db: Database, token: string): Promise<void> {
  await sql`
    update fillrate.jobs set lease_token = null, leased_until = null, not_before = now()
     where state = ${sql.lit(Job.submitting)} and lease_token = ${token}`.execute(db)
}
