import { sql } from 'kysely'
import { interval } from './batch.ts'
import type { Database } from './open.ts'

/** How the process that calls stands, as it tells it every few seconds. Times are ISO 8601. */
export interface RateTold {
  readonly state: string
  readonly limit: number | null
  readonly window_ms: number | null
  /** Where the window is not known, it is no longer than this. */
  readonly window_at_most_ms?: number | null
  /** Calls of this turn, and what the limit permitted meanwhile. */
  readonly used: number
  readonly permitted: number | null
  readonly utilisation: number | null
  readonly window_used: number
  readonly next_window_at: string | null
  readonly stall_reason: string | null
  readonly throttled: number
  /** Another client seems to spend the key. */
  readonly shared_key: boolean
}

export interface Heard extends RateTold {
  readonly reported_at: Date
  /** Told moments ago, by a process that still calls. */
  readonly live: boolean
}

/** Only who holds the turn may tell: `token` is its lease. */
const holds = (scope: string, token: string) =>
  sql`exists (select 1 from fillrate.leases where scope = ${scope} and lease_token = ${token})`

/**
 * Puts down that the limit may be used up for so long from now: whoever calls next waits that long. Null takes it
 * back. It is the database's clock that counts, because the next caller may run on another machine.
 * @returns false when the turn is no longer this process's
 */
export async function noteSpent(
  db: Database,
  turn: { readonly scope: string; readonly token: string },
  limit: { readonly limit: number; readonly windowMs: number | null },
  forMs: number | null,
): Promise<boolean> {
  const until = forMs === null ? sql`null::timestamptz` : sql`now() + ${interval(Math.ceil(forMs))}`
  const result = await sql`
    insert into fillrate.rate_limits as r (scope, "limit", window_ms, observed_at, exhausted_until)
    select ${turn.scope}, ${limit.limit}, ${limit.windowMs}, now(), ${until}
     where ${holds(turn.scope, turn.token)}
    on conflict (scope) do update set exhausted_until = excluded.exhausted_until`.execute(db)
  return result.numAffectedRows === 1n
}

/** For how long the limit may still be used up, in milliseconds; 0 when it is not. */
export async function spentFor(db: Database, scope: string): Promise<number> {
  const { rows } = await sql<{ ms: number | null }>`
    select (extract(epoch from exhausted_until - now()) * 1000)::float8 as ms
      from fillrate.rate_limits where scope = ${scope}`.execute(db)
  return Math.max(0, rows[0]?.ms ?? 0)
}

export async function tell(
  db: Database,
  { scope, token }: { readonly scope: string; readonly token: string },
  told: RateTold,
): Promise<void> {
  await sql`
    update fillrate.rate_limits set status = ${JSON.stringify(told)}::jsonb, reported_at = now()
     where scope = ${scope} and ${holds(scope, token)}`.execute(db)
}

/** What was told last of each scope, and by whom it is called now. */
export async function heard(db: Database): Promise<ReadonlyMap<string, Heard>> {
  const { rows } = await sql<{ scope: string; told: RateTold; reported_at: Date; live: boolean }>`
    select r.scope, r.status as told, r.reported_at, c.leased_until is not null and c.leased_until > now() as live
      from fillrate.rate_limits r left join fillrate.leases c on c.scope = r.scope
     where r.status is not null`.execute(db)
  return new Map(rows.map(({ scope, told, reported_at, live }) => [scope, { ...told, reported_at, live }]))
}
