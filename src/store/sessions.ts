import { sql } from 'kysely'
import { anyOf } from './sql.ts'
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

/** The sessions that were signed out, of these. */
export async function findRevokedSessions(db: Connection, hashes: readonly Buffer[]): Promise<Buffer[]> {
  const revoked = db.selectFrom('fillrate.revoked_sessions').select('hash').where('hash', '=', anyOf(hashes))
  return (await revoked.execute()).map(({ hash }) => hash)
}
