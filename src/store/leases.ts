import { sql } from 'kysely'
import type { Database } from './open.ts'
import { intervalSql, isHeldSql } from './sql.ts'

/**
 * Acquires or renews the lease of a scope: its holder is the leader, the only process that calls the service. One
 * statement, so that two processes cannot both get it.
 * @param leaseMs milliseconds
 * @returns false if another process holds it
 */
export async function acquireLease(
  db: Database,
  scope: string,
  token: string,
  owner: string,
  leaseMs: number,
): Promise<boolean> {
  const { rows } = await sql`
    insert into fillrate.leases as c (scope, lease_token, leased_until, owner)
    values (${scope}, ${token}, now() + ${intervalSql(leaseMs)}, ${owner})
    on conflict (scope) do update
      set lease_token = excluded.lease_token, leased_until = excluded.leased_until, owner = excluded.owner,
          acquired_at = case when c.lease_token = excluded.lease_token then c.acquired_at else now() end
    where c.lease_token = excluded.lease_token or not (${isHeldSql(sql`c.leased_until`)})
    returning scope`.execute(db)
  return rows.length === 1
}

/** Releases the lease at once, so that the next leader need not wait until it expires. */
export async function releaseLease(db: Database, scope: string, token: string): Promise<void> {
  const leases = db.deleteFrom('fillrate.leases').where('scope', '=', scope)
  await leases.where('lease_token', '=', token).execute()
}

/** The process that holds the lease now; null if none does. */
export async function currentLeaseOwner(db: Database, scope: string): Promise<string | null> {
  const leases = db.selectFrom('fillrate.leases').select('owner').where('scope', '=', scope)
  return (await leases.where(isHeldSql()).executeTakeFirst())?.owner ?? null
}
