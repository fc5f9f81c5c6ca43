import { sql } from 'kysely'
import type { KnownLimit, RateStatus, StoredRateStatus } from '../domain/rate-status.ts'
import type { Database } from './open.ts'
import { intervalSql } from './sql.ts'

/** A window that a short run could not make out is still as long as it was, while the limit is the same. */
export async function saveRateLimit(db: Database, scope: string, known: KnownLimit): Promise<void> {
  await sql`
    insert into fillrate.rate_limits as r (scope, "limit", window_ms, observed_at)
    values (${scope}, ${known.limit}, ${known.windowMs}, ${new Date(known.observedAt)})
    on conflict (scope) do update
      set "limit" = excluded."limit", observed_at = excluded.observed_at,
          window_ms = coalesce(excluded.window_ms, case when r."limit" = excluded."limit" then r.window_ms end)
    where r.observed_at <= excluded.observed_at`.execute(db)
}

export async function readRateLimit(db: Database, scope: string): Promise<KnownLimit | null> {
  const { rows } = await sql<{ limit: number; window_ms: number | null; observed_at: Date }>`
    select "limit", window_ms, observed_at from fillrate.rate_limits where scope = ${scope}`.execute(db)
  const row = rows[0]
  return row ? { limit: row.limit, windowMs: row.window_ms, observedAt: row.observed_at.getTime() } : null
}

/** Every limit that was ever seen, the latest first. */
export async function listRateLimits(db: Database): Promise<(KnownLimit & { readonly scope: string })[]> {
  const { rows } = await sql<{ scope: string; limit: number; window_ms: number | null; observed_at: Date }>`
    select scope, "limit", window_ms, observed_at from fillrate.rate_limits order by observed_at desc`.execute(
    db,
  )
  return rows.map((row) => ({
    scope: row.scope,
    limit: row.limit,
    windowMs: row.window_ms,
    observedAt: row.observed_at.getTime(),
  }))
}

/** Only who holds the turn may tell: `token` is its lease. */
const holdsLeaseSql = (scope: string, token: string) =>
  sql`exists (select 1 from fillrate.leases where scope = ${scope} and lease_token = ${token})`

/**
 * Puts down that the limit may be used up for so long from now: whoever calls next waits that long. Null takes it
 * back. It is the database's clock that counts, because the next caller may run on another machine.
 * @returns false when the turn is no longer this process's
 */
export async function saveExhausted(
  db: Database,
  turn: { readonly scope: string; readonly token: string },
  limit: { readonly limit: number; readonly windowMs: number | null },
  forMs: number | null,
): Promise<boolean> {
  const until = forMs === null ? sql`null::timestamptz` : sql`now() + ${intervalSql(Math.ceil(forMs))}`
  const result = await sql`
    insert into fillrate.rate_limits as r (scope, "limit", window_ms, observed_at, exhausted_until)
    select ${turn.scope}, ${limit.limit}, ${limit.windowMs}, now(), ${until}
     where ${holdsLeaseSql(turn.scope, turn.token)}
    on conflict (scope) do update set exhausted_until = excluded.exhausted_until`.execute(db)
  return result.numAffectedRows === 1n
}

/** For how long the limit may still be used up, in milliseconds; 0 when it is not. */
export async function exhaustedFor(db: Database, scope: string): Promise<number> {
  const { rows } = await sql<{ ms: number | null }>`
    select (extract(epoch from exhausted_until - now()) * 1000)::float8 as ms
      from fillrate.rate_limits where scope = ${scope}`.execute(db)
  return Math.max(0, rows[0]?.ms ?? 0)
}

export async function saveRateStatus(
  db: Database,
  { scope, token }: { readonly scope: string; readonly token: string },
  status: RateStatus,
): Promise<void> {
  await sql`
    update fillrate.rate_limits set status = ${JSON.stringify(status)}::jsonb, reported_at = now()
     where scope = ${scope} and ${holdsLeaseSql(scope, token)}`.execute(db)
}

/** The latest reported status of each scope, and whether the leader that reported it still holds its lease. */
export async function readRateStatuses(db: Database): Promise<ReadonlyMap<string, StoredRateStatus>> {
  const { rows } = await sql<{ scope: string; status: RateStatus; reported_at: Date; is_live: boolean }>`
    select r.scope, r.status, r.reported_at, c.leased_until is not null and c.leased_until > now() as is_live
      from fillrate.rate_limits r left join fillrate.leases c on c.scope = r.scope
     where r.status is not null`.execute(db)
  return new Map(
    rows.map(({ scope, status, reported_at, is_live }) => [
      scope,
      { ...status, reportedAt: reported_at, isLive: is_live },
    ]),
  )
}

/** A service that is down: until when it is left alone, and how long that pause is. Milliseconds. */
export interface StoredCircuit {
  readonly probeInMs: number
  readonly pauseMs: number
}

/**
 * Keeps an outage for whoever calls next, or strikes it out. Only who holds the turn may tell: `token` is its lease.
 */
export async function saveCircuit(
  db: Database,
  { scope, token }: { readonly scope: string; readonly token: string },
  outage: StoredCircuit | null,
): Promise<void> {
  const holds = sql`exists (select 1 from fillrate.leases where scope = ${scope} and lease_token = ${token})`
  if (outage === null) {
    await sql`delete from fillrate.circuit_breakers where scope = ${scope} and ${holds}`.execute(db)
    return
  }
  await sql`
    insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms)
    select ${scope}, now() + ${intervalSql(Math.max(0, Math.ceil(outage.probeInMs)))}, ${Math.ceil(outage.pauseMs)}::integer
     where ${holds}
    on conflict (scope) do update set probe_at = excluded.probe_at, backoff_ms = excluded.backoff_ms`.execute(
    db,
  )
}

/** An outage as it was met last, with how long it has lasted. Milliseconds. */
export interface KnownCircuit extends StoredCircuit {
  readonly lastedMs: number
}

/** The outage that was met last, if it was not over by then. */
export async function findCircuit(db: Database, scope: string): Promise<KnownCircuit | null> {
  const { rows } = await sql<{ ms: number; backoff_ms: number; lasted_ms: number }>`
    select (extract(epoch from probe_at - now()) * 1000)::float8 as ms, backoff_ms,
           (extract(epoch from now() - opened_at) * 1000)::float8 as lasted_ms
      from fillrate.circuit_breakers where scope = ${scope}`.execute(db)
  const row = rows[0]
  return row
    ? { probeInMs: Math.max(0, row.ms), pauseMs: row.backoff_ms, lastedMs: Math.max(0, row.lasted_ms) }
    : null
}
