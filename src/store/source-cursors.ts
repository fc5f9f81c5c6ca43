import { sql } from 'kysely'
import { advanceCursor, type PassStart, readSince, type SourceCursor } from '../domain/cursor.ts'
import type { Database } from './open.ts'

/** A pass over a source by `changedAt`, as of its start. */
export interface CursorPass {
  /** Read changes from here on; null: read the whole table. */
  readonly since: Date | null
  readonly start: PassStart
  readonly cursor: SourceCursor | null
}

/**
 * Opens a pass over a source with `changedAt`: reads how far it was read under this mapping, and the running
 * transactions. Call it before the first page is read. Uses Postgres's clock, because `changedAt` does; a process's clock
 * may be off.
 *
 * Every open transaction holds a lock on its virtual id, from its begin, with or without an id of its own, and all roles see it.
 * A role without pg_read_all_stats does not see when the transactions of other users began. Autovacuum has no user, and
 * changes no row. A backend that is gone, or that visibly has no transaction, has ended it before the first page is read, or
 * begins one later.
 */
export async function openCursor(db: Database, source: string, mappingHash: string): Promise<CursorPass> {
  const { rows } = await sql<{
    now: Date
    running: { id: string; started_at: string | null; is_prepared: boolean }[]
    changed_until: Date | null
    started_at: Date
    running_transactions: Readonly<Record<string, string>>
    full_pass_at: Date
  }>`
    select now() as now, p.*, (
             select coalesce(jsonb_agg(t), '[]') from (
               select l.virtualxid as id, a.xact_start as started_at, false as is_prepared
                 from pg_locks l join pg_stat_activity a on a.pid = l.pid
                where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.granted and l.pid <> pg_backend_pid()
                  and a.datname = current_database() and a.usesysid is not null
                  and (a.xact_start is not null or coalesce(a.state, 'disabled') = 'disabled')
                union all
               select 'prepared ' || transaction::text, null, true from pg_prepared_xacts where database = current_database()
             ) t) as running
      from (select) as one
      left join fillrate.source_cursors p on p.source = ${source} and p.mapping_hash = ${mappingHash}`.execute(
    db,
  )
  const [row] = rows
  if (row === undefined) throw new Error('reading the open transactions returned no row')
  const start: PassStart = {
    now: row.now,
    running: row.running.map(({ id, started_at: at, is_prepared: isPrepared }) => ({
      id,
      startedAt: at === null ? null : new Date(at),
      isPrepared,
    })),
  }
  const cursor: SourceCursor | null = row.changed_until && {
    changedUntil: row.changed_until,
    startedAt: row.started_at,
    running: new Map(Object.entries(row.running_transactions).map(([id, at]) => [id, new Date(at)])),
    fullPassAt: row.full_pass_at,
  }
  return { since: readSince(cursor, start.now), start, cursor }
}

/** Records that a process has these sources in its configuration, at most once an hour for each. */
export async function markConfigured(db: Database, sources: readonly string[]): Promise<void> {
  await sql`
    insert into fillrate.source_cursors as c (source) select unnest(${[...sources]}::text[])
    on conflict (source) do update set last_configured_at = now()
      where c.last_configured_at < now() - interval '1 hour'`.execute(db)
}

/** Records that a pass has read to the end. */
export async function saveCursor(
  db: Database,
  source: string,
  mappingHash: string,
  { since, start, cursor }: CursorPass,
): Promise<void> {
  const { changedUntil, running } = advanceCursor(start, cursor)
  const fullPassAt = since === null ? start.now : (cursor?.fullPassAt ?? start.now)
  await sql`
    insert into fillrate.source_cursors (source, mapping_hash, changed_until, started_at, running_transactions, full_pass_at)
    values (${source}, ${mappingHash}, ${changedUntil}, ${start.now}, ${JSON.stringify(Object.fromEntries(running))}::jsonb, ${fullPassAt})
    on conflict (source) do update
      set mapping_hash = excluded.mapping_hash, changed_until = excluded.changed_until,
          started_at = excluded.started_at, running_transactions = excluded.running_transactions,
          full_pass_at = excluded.full_pass_at`.execute(db)
}
