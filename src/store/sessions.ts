import { sql } from 'kysely'
import type { Connection } from './transaction.ts'

// Sessions of the dashboard are signed, not stored. Stored are those that were signed out before their end, so that a
// copied cookie is worthless for every process on this database.

/** Revokes a session, and forgets revoked ones that have expired since. @param hash of the whole cookie value */
export async function revokeSession(db: Connection, hash: Buffer, expiresAt: Date): Promise<void> {
  await sql`
    with expired as (
      delete from fillrate.revoked_sessions where expires_at < now()
    )
    insert into fillrate.revoked_sessions (hash, expires_at) values (${hash}, ${expiresAt})
    on conflict (hash) do nothing`.execute(db)
}

/** Whether a session was signed out. */
export async function isSessionRevoked(db: Connection, hash: Buffer): Promise<boolean> {
  const { rows } = await sql`
    select from fillrate.revoked_sessions where hash = ${hash}`.execute(db)
  return rows.length > 0
}
