import { sql } from 'kysely'
import { interval } from './batch.ts'
import type { Database } from './open.ts'

/** A service that is down: until when it is left alone, and how long that pause is. Milliseconds. */
export interface Outage {
  readonly probeInMs: number
  readonly pauseMs: number
}

/**
 * Keeps an outage for whoever calls next, or strikes it out. Only who holds the turn may tell: `token` is its lease.
 */
export async function keep(
  db: Database,
  { scope, token }: { readonly scope: string; readonly token: string },
  outage: Outage | null,
): Promise<void> {
  const holds = sql`exists (select 1 from fillrate.leases where scope = ${scope} and lease_token = ${token})`
  if (outage === null) {
    await sql`delete from fillrate.circuit_breakers where scope = ${scope} and ${holds}`.execute(db)
    return
  }
  await sql`
    insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms)
    select ${scope}, now() + ${interval(Math.max(0, Math.ceil(outage.probeInMs)))}, ${Math.ceil(outage.pauseMs)}::integer
     where ${holds}
    on conflict (scope) do update set probe_at = excluded.probe_at, backoff_ms = excluded.backoff_ms`.execute(
    db,
  )
}

/** An outage as it was met last, with how long it has lasted. Milliseconds. */
export interface KnownOutage extends Outage {
  readonly lastedMs: number
}

/** The outage that was met last, if it was not over by then. */
export async function find(db: Database, scope: string): Promise<KnownOutage | null> {
  const { rows } = await sql<{ ms: number; backoff_ms: number; lasted_ms: number }>`
    select (extract(epoch from probe_at - now()) * 1000)::float8 as ms, backoff_ms,
           (extract(epoch from now() - opened_at) * 1000)::float8 as lasted_ms
      from fillrate.circuit_breakers where scope = ${scope}`.execute(db)
  const row = rows[0]
  return row
    ? { probeInMs: Math.max(0, row.ms), pauseMs: row.backoff_ms, lastedMs: Math.max(0, row.lasted_ms) }
    : null
}
