import { sql } from 'kysely'
import type { Database } from './open.ts'

/** What was last known of a key's limit: the next run starts warm with it. */
export interface KnownLimit {
  readonly limit: number
  /** Null while the window's length is not known. */
  readonly windowMs: number | null
  /** Milliseconds since the epoch. */
  readonly observedAt: number
}

/** A window that a short run could not make out is still as long as it was, while the limit is the same. */
export async function remember(db: Database, scope: string, known: KnownLimit): Promise<void> {
  await sql`
    insert into fillrate.rate_limits as r (scope, "limit", window_ms, observed_at)
    values (${scope}, ${known.limit}, ${known.windowMs}, ${new Date(known.observedAt)})
    on conflict (scope) do update
      set "limit" = excluded."limit", observed_at = excluded.observed_at,
          window_ms = coalesce(excluded.window_ms, case when r."limit" = excluded."limit" then r.window_ms end)
    where r.observed_at <= excluded.observed_at`.execute(db)
}

export async function recall(db: Database, scope: string): Promise<KnownLimit | null> {
  const { rows } = await sql<{ limit: number; window_ms: number | null; observed_at: Date }>`
    select "limit", window_ms, observed_at from fillrate.rate_limits where scope = ${scope}`.execute(db)
  const row = rows[0]
  return row ? { limit: row.limit, windowMs: row.window_ms, observedAt: row.observed_at.getTime() } : null
}

/** Every limit that was ever seen, the latest first. */
export async function list(db: Database): Promise<(KnownLimit & { readonly scope: string })[]> {
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
