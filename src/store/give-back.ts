import { sql } from 'kysely'
import { Job } from '../domain/job.ts'
import { Lookup } from '../domain/lookup.ts'
import type { Database } from './open.ts'

const returned = sql`
  update fillrate.lookups set state = ${sql.lit(Lookup.pending)}, lease_token = null, leased_until = null
   where state = ${sql.lit(Lookup.leased)}`

/** Leased lookups that were certainly not asked: they may be at once, and nothing is in doubt. */
export async function lookups(
  db: Database,
  leased: readonly { readonly id: number; readonly token: string }[],
): Promise<void> {
  const ids = leased.map(({ id }) => id)
  const tokens = [...new Set(leased.map(({ token }) => token))]
  await sql`${returned} and id = any(${ids}::bigint[]) and lease_token = any(${tokens}::uuid[])`.execute(db)
}

/** The same for all that is leased under a token. */
export async function underToken(db: Database, token: string): Promise<void> {
  await sql`${returned} and lease_token = ${token}`.execute(db)
}

/** Jobs under a token were certainly not posted: the same. */
export async function jobs(db: Database, token: string): Promise<void> {
  await sql`
    update fillrate.jobs set lease_token = null, leased_until = null, not_before = now()
     where state = ${sql.lit(Job.submitting)} and lease_token = ${token}`.execute(db)
}
