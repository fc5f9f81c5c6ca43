import { sql } from 'kysely'
import { intervalSql } from './sql.ts'
import type { Database } from './open.ts'

/**
 * Becomes the caller of a scope, or stays it. One statement, so that two processes can't both win.
 * @returns false while another process holds it
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
      set lease_token = excluded.lease_token, leased_until = excluded.leased_until, owner = excluded.owner
    where c.lease_token = excluded.lease_token or c.leased_until < now()
    returning scope`.execute(db)
  return rows.length === 1
}

/** Gives the scope up at once, so that the next process need not wait for the lease to run out. */
export async function releaseLease(db: Database, scope: string, token: string): Promise<void> {
  await sql`delete from fillrate.leases where scope = ${scope} and lease_token = ${token}`.execute(db)
}

/** Who calls the service now. */
export async function currentLeaseOwner(db: Database, scope: string): Promise<string | null> {
  const { rows } = await sql<{ owner: string }>`
    select owner from fillrate.leases where scope = ${scope} and leased_until > now()`.execute(db)
  return rows[0]?.owner ?? null
}
