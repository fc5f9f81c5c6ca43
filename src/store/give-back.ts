import { sql } from 'kysely'
import { Job } from '../domain/job.ts'
import { Lookup } from '../domain/lookup.ts'
import type { Database } from './open.ts'

const giveBack = sql`update fillrate.lookups l set state = ${sql.lit(Lookup.pending)}, lease_token = null, leased_until = null`
const isLeased = sql`l.state = ${sql.lit(Lookup.leased)}`

/** Leased lookups that were certainly not asked: they may be at once, and nothing is in doubt. */
export async function lookups(
  db: Database,
  leased: readonly { readonly id: number; readonly token: string }[],
): Promise<void> {
  // Each under its own token: one that was leased again meanwhile may be on the wire under another of them.
  await sql`
    ${giveBack} from unnest(${leased.map(({ id }) => id)}::bigint[], ${leased.map(({ token }) => token)}::uuid[]) as k (id, token)
     where l.id = k.id and ${isLeased} and l.lease_token = k.token`.execute(db)
}

/** The same for all that is leased under a token. */
export async function underToken(db: Database, token: string): Promise<void> {
  await sql`${giveBack} where ${isLeased} and l.lease_token = ${token}`.execute(db)
}

/** Jobs under a token were certainly not posted: the same. */
export async function jobs(db: Database, token: string): Promise<void> {
  await sql`
    update fillrate.jobs set lease_token = null, leased_until = null, not_before = now()
     where state = ${sql.lit(Job.submitting)} and lease_token = ${token}`.execute(db)
}
