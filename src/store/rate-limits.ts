import { type RawBuilder, sql } from 'kysely'
import type {
  CircuitSnapshot,
  ExhaustedFor,
  KnownLimit,
  LimitUsage,
  PreviousLeader,
  RateStatus,
  StoredRateStatus,
} from '../domain/rate-status.ts'
import type { Database } from './open.ts'
import { intervalSql } from './sql.ts'
import { isHeldSql } from './terms.ts'

// What belongs to a scope: the lease of its leader, and what the leader stores for the next one: limits, its last report, the circuit.

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
  await sql`delete from fillrate.leases where scope = ${scope} and lease_token = ${token}`.execute(db)
}

/** A service, by its number, and the scope of its limit: its address and the identifier of the key. */
export interface ServiceScope {
  readonly scope: string
  readonly service: number
}

/** A scope that this process leads. */
interface LedScope extends ServiceScope {
  readonly token: string
}

/** The last known limit of a scope. */
export async function readRateLimit(db: Database, scope: string): Promise<KnownLimit | null> {
  const [known] = await listRateLimits(db, scope)
  return known ? { limit: known.limit, windowMs: known.windowMs, observedAt: known.observedAt } : null
}

/** Every known limit, or that of a scope, the latest first, with what its service is called. */
export async function listRateLimits(
  db: Database,
  scope: string | null = null,
): Promise<(KnownLimit & { readonly scope: string; readonly service: string })[]> {
  const { rows } = await sql<KnownLimit & { scope: string; service: string }>`
    select r.scope, coalesce(s.name, s.host, '') as service, r."limit", r.window_ms as "windowMs",
           (extract(epoch from r.observed_at) * 1000)::float8 as "observedAt"
      from fillrate.rate_limits r left join fillrate.services s on s.id = r.service_id
     where r."limit" is not null and ${scope === null ? sql`true` : sql`r.scope = ${scope}`}
     order by r.observed_at desc`.execute(db)
  return rows
}

/** SQL: whether the leader with this token still holds its lease: only the leader may write. */
const holdsLeaseSql = (scope: string, token: string) =>
  sql<boolean>`exists (select 1 from fillrate.leases where scope = ${scope} and lease_token = ${token})`

/** Stores columns for the next leader, whether or not a limit is known. @returns false if the lease is lost */
async function saveForNextLeader(
  db: Database,
  { scope, service, token }: LedScope,
  values: Readonly<Record<string, RawBuilder<unknown>>>,
): Promise<boolean> {
  const columns = Object.keys(values)
  const result = await sql`
    insert into fillrate.rate_limits (scope, service_id, observed_at, ${sql.join(columns.map((column) => sql.ref(column)))})
    select ${scope}, ${service}, to_timestamp(0), ${sql.join(Object.values(values))}
     where ${holdsLeaseSql(scope, token)}
    on conflict (scope) do update
      set ${sql.join(columns.map((name) => sql`${sql.ref(name)} = ${sql.ref(`excluded.${name}`)}`))}`.execute(
    db,
  )
  return result.numAffectedRows === 1n
}

/**
 * Persists for how long limits may be exhausted, in place of what was persisted before: the next leader waits that long
 * with the calls that they concern. Uses the database's clock, because the next leader may run on another machine.
 * @returns false if the lease is lost
 */
export const saveExhausted = (db: Database, lease: LedScope, exhaustedFor: ExhaustedFor): Promise<boolean> =>
  saveForNextLeader(db, lease, {
    exhausted_until: sql`(
      select coalesce(jsonb_object_agg(key, now() + value::float8 * interval '1 ms'), '{}')
        from jsonb_each_text(${JSON.stringify(exhaustedFor)}::jsonb))`,
    exhausted_at: sql`now()`,
  })

/**
 * Saves what was called within documented limits, for the next leader.
 * @returns false if the lease is lost
 */
export const saveLimitUsage = (db: Database, lease: LedScope, usage: LimitUsage): Promise<boolean> =>
  saveForNextLeader(db, lease, { usage: sql`${JSON.stringify(usage)}::jsonb`, usage_at: sql`now()` })

/**
 * Saves the leader's status report, and the limit in it for the next leader: the known length of its window stays where this one is
 * unknown and the limit is the same. Without a limit, only a report that calls wait begins a row.
 */
export async function saveRateStatus(
  db: Database,
  { scope, service, token }: LedScope,
  status: RateStatus,
): Promise<void> {
  const { limit, windowMs, stallReason } = status
  const isKnown = limit !== null
  await sql`
    insert into fillrate.rate_limits as r (scope, service_id, "limit", window_ms, observed_at, status, reported_at)
    select ${scope}, ${service}, ${limit}, ${isKnown ? windowMs : null}, ${isKnown ? sql`now()` : sql`to_timestamp(0)`},
           ${JSON.stringify(status)}::jsonb, now()
     where ${holdsLeaseSql(scope, token)}
       and (
         ${isKnown || stallReason !== null}
         or exists (
           select
             from fillrate.rate_limits
            where scope = ${scope}
         )
       )
    on conflict (scope) do update
      set "limit" = coalesce(excluded."limit", r."limit"),
          window_ms = coalesce(excluded.window_ms, case when coalesce(excluded."limit" = r."limit", true) then r.window_ms end),
          observed_at = greatest(excluded.observed_at, r.observed_at),
          status = excluded.status, reported_at = excluded.reported_at`.execute(db)
}

/** A client that was not seen for longer may be gone. */
const SHARED_FOR = sql`interval '1 minute'`

/** What the previous leader of a scope has left. */
export interface LeftRate {
  /** How long limits may still be exhausted. What was stored in the future was stored while the clock was wrong, and is over. */
  readonly exhaustedFor: ExhaustedFor
  readonly previous: PreviousLeader
  /** What was called within documented limits, as of now; null: nothing is known. */
  readonly usage: LimitUsage | null
}

export async function readLeftRate(db: Database, scope: string): Promise<LeftRate> {
  const { rows } = await sql<LeftRate & { readonly usageMs: number | null }>`
    select (select coalesce(jsonb_object_agg(key, (extract(epoch from value::timestamptz - now()) * 1000)::float8), '{}')
              from jsonb_each_text(exhausted_until) where value::timestamptz > now() and exhausted_at <= now()) as "exhaustedFor",
           jsonb_build_object(
             'wasBanned', coalesce(status ->> 'state' = 'banned', false),
             'learnt', status -> 'learnt',
             'wasShared', coalesce((status ->> 'sharedKey')::boolean and reported_at > now() - ${SHARED_FOR}, false)) as previous,
           usage, (extract(epoch from now() - usage_at) * 1000)::float8 as "usageMs"
      from fillrate.rate_limits where scope = ${scope}`.execute(db)
  const [left] = rows
  if (left === undefined) return { exhaustedFor: {}, previous: {}, usage: null }
  const { usage, usageMs, ...others } = left
  const elapsedMs = Math.max(0, usageMs ?? 0)
  const windows = usage?.windows.map((window) => ({
    ...window,
    calls: window.calls.map(([ageMs, calls]) => [ageMs + elapsedMs, calls] as const),
  }))
  return { ...others, usage: usage && windows ? { ...usage, windows } : null }
}

/** The latest reported status of each scope, and whether the leader that reported it still holds its lease. */
export async function readRateStatuses(db: Database): Promise<ReadonlyMap<string, StoredRateStatus>> {
  const { rows } = await sql<{ scope: string; status: RateStatus; reported_at: Date; is_live: boolean }>`
    select r.scope, r.status, r.reported_at, coalesce(${isHeldSql(sql`c.leased_until`)}, false) as is_live
      from fillrate.rate_limits r left join fillrate.leases c on c.scope = r.scope
     where r.status is not null`.execute(db)
  return new Map(
    rows.map(({ scope, status, reported_at, is_live }) => [
      scope,
      { ...status, reportedAt: reported_at, isLive: is_live },
    ]),
  )
}

/** Saves the circuit breaker's state for the next leader; null deletes it. Only the leader, by its lease, may write. */
export async function saveCircuit(
  db: Database,
  { scope, service, token }: LedScope,
  circuit: CircuitSnapshot | null,
): Promise<void> {
  const holdsLease = holdsLeaseSql(scope, token)
  if (circuit === null) {
    await sql`
      delete from fillrate.circuit_breakers where scope = ${scope} and cause <> 'key_refused'
         and ${holdsLease}`.execute(db)
    return
  }
  await sql`
    insert into fillrate.circuit_breakers (scope, service_id, probe_at, backoff_ms, reason, cause)
    select ${scope}, ${service}, now() + ${intervalSql(Math.max(0, Math.ceil(circuit.probeInMs)))}, ${Math.ceil(circuit.backoffMs)}::integer,
           ${circuit.reason}, ${circuit.cause}
     where ${holdsLease}
    on conflict (scope) do update
      set probe_at = excluded.probe_at, stored_at = now(), backoff_ms = excluded.backoff_ms, reason = excluded.reason,
          cause = excluded.cause`.execute(db)
}

/**
 * Deletes what is stored of other keys of a service that no leader calls with any more, and that were refused, or whose account had no
 * credits: the key was replaced, and no call would ever be answered with the former one.
 */
export async function deleteReplacedCircuits(db: Database, { scope, service }: ServiceScope): Promise<void> {
  await sql`
    delete from fillrate.circuit_breakers c
     where cause in ('out_of_credits', 'key_refused') and scope <> ${scope} and service_id = ${service}
       and not exists (select from fillrate.leases l where l.scope = c.scope and ${isHeldSql(sql`l.leased_until`)})`.execute(
    db,
  )
}

/** Stores that a service refuses a key, or still does. @param reason in its words; null: as before */
export async function refuseKey(
  db: Database,
  { scope, service }: ServiceScope,
  reason: string | null,
): Promise<void> {
  await sql`
    insert into fillrate.circuit_breakers as c (scope, service_id, probe_at, backoff_ms, reason, cause)
    values (${scope}, ${service}, now(), 1, ${reason}, 'key_refused')
    on conflict (scope) do update
      set probe_at = now(), cause = 'key_refused', reason = coalesce(excluded.reason, c.reason),
          opened_at = case when c.cause = 'key_refused' then c.opened_at else now() end`.execute(db)
}

/** Stores that a key is accepted again: what waits for it goes on. @returns whether it was refused */
export async function acceptKey(db: Database, scope: string): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with accepted as (
      delete from fillrate.circuit_breakers
       where scope = ${scope}
         and cause = 'key_refused'
      returning service_id
    )
    update fillrate.services
       set try_at = clock_timestamp()
     where id in (select service_id from accepted)`.execute(db)
  return (numAffectedRows ?? 0n) > 0n
}

/** The scopes whose key is refused. */
export async function listRefusedKeys(db: Database): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`
    select scope from fillrate.circuit_breakers where cause = 'key_refused'`.execute(db)
  return rows.map(({ scope }) => scope)
}

/** A stored open circuit, and how long it has been open. Milliseconds. */
export interface KnownCircuit extends CircuitSnapshot {
  readonly scope: string
  readonly openMs: number
}

/**
 * The stored open circuit of a scope; null if it was closed last. One that was stored in the future was stored while the clock was wrong:
 * it is probed at once.
 */
export async function findCircuit(db: Database, scope: string): Promise<KnownCircuit | null> {
  const { rows } = await sql<KnownCircuit>`
    select scope, reason, cause, backoff_ms as "backoffMs",
           case when stored_at <= now() then greatest(0, extract(epoch from probe_at - now()) * 1000)::float8 else 0 end as "probeInMs",
           greatest(0, extract(epoch from now() - opened_at) * 1000)::float8 as "openMs"
      from fillrate.circuit_breakers where scope = ${scope} and cause <> 'key_refused'`.execute(db)
  return rows[0] ?? null
}
