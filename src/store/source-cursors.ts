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
 */
export async function openCursor(db: Database, source: string, mappingHash: string): Promise<CursorPass> {
  // A role without pg_read_all_stats sees neither the start nor the query of other users' sessions. A prepared
  // transaction has no session, and its `prepared` is not its start.
  const { rows } = await sql<{
    now: Date
    oldest: Date | null
    hidden: boolean
    xmin: string
    xmax: string
    changed_until: Date | null
    started_at: Date
    snapshot_xmax: string
    full_pass_at: Date
  }>`
    select now() as now, s.*, pg_snapshot_xmin(x)::text as xmin, pg_snapshot_xmax(x)::text as xmax,
           p.changed_until, p.started_at, p.snapshot_xmax::text as snapshot_xmax, p.full_pass_at
      from pg_current_snapshot() x
     cross join lateral (
       select min(xact_start) as oldest,
              coalesce(bool_or(query = '<insufficient privilege>'), false)
              or exists (select from pg_prepared_xacts where database = current_database()) as hidden
         from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
     ) s
      left join fillrate.source_cursors p on p.source = ${source} and p.mapping_hash = ${mappingHash}`.execute(
    db,
  )
  const [row] = rows
  if (row === undefined) throw new Error('reading the snapshot returned no row')
  const start: PassStart = {
    now: row.now,
    oldestTransactionAt: row.oldest,
    hasHidden: row.hidden,
    snapshotXmin: BigInt(row.xmin),
    snapshotXmax: BigInt(row.xmax),
  }
  const cursor: SourceCursor | null = row.changed_until && {
    changedUntil: row.changed_until,
    startedAt: row.started_at,
    snapshotXmax: BigInt(row.snapshot_xmax),
    fullPassAt: row.full_pass_at,
  }
  return { since: readSince(cursor, start.now), start, cursor }
}

/** Records that a pass has read to the end. */
export async function saveCursor(
  db: Database,
  source: string,
  mappingHash: string,
  { since, start, cursor }: CursorPass,
): Promise<void> {
  const until = advanceCursor(start, cursor)
  if (until === null) return
  const fullPassAt = since === null ? start.now : (cursor?.fullPassAt ?? start.now)
  await sql`
    insert into fillrate.source_cursors (source, mapping_hash, changed_until, started_at, snapshot_xmax, full_pass_at)
    values (${source}, ${mappingHash}, ${until}, ${start.now}, ${String(start.snapshotXmax)}::bigint, ${fullPassAt})
    on conflict (source) do update
      set mapping_hash = excluded.mapping_hash, changed_until = excluded.changed_until,
          started_at = excluded.started_at, snapshot_xmax = excluded.snapshot_xmax,
          full_pass_at = excluded.full_pass_at`.execute(db)
}
