import { sql } from 'kysely'
import type { PausedSource, SlowedWrites } from '../domain/report/status.ts'
import { grantWrites, type WriteGrant, type WritePace } from '../domain/write-pace.ts'
import type { Database } from './open.ts'
import { intervalSql } from './sql.ts'
import { IS_PAUSED } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

// The table `source_state`, one row a source: whether it is paused, how far a pass has read it, and how fast it is written.

/** All paused sources, in order of their names. */
export async function listPaused(db: Connection): Promise<PausedSource[]> {
  const { rows } = await sql<PausedSource>`
    select source, paused_at, paused_by, pause_reason as reason, resume_at
      from fillrate.source_state where ${IS_PAUSED} order by source`.execute(db)
  return rows
}

/** Which of these sources are paused, in order. */
export async function filterPaused(db: Connection, sources: readonly string[]): Promise<string[]> {
  const paused = await listPaused(db)
  return paused.map(({ source }) => source).filter((source) => sources.includes(source))
}

interface PauseDetails {
  readonly by: string
  readonly reason: string | null
  /** How long it lasts, in milliseconds; null: until the source is resumed. */
  readonly forMs: number | null
}

/**
 * Pauses sources. The last pause counts: it replaces the reason and the end of one before.
 * @returns the sources that were not paused before
 */
export async function pauseSources(
  db: Connection,
  sources: readonly string[],
  { by, reason, forMs }: PauseDetails,
): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with before as (
      select source from fillrate.source_state where source = any(${[...sources]}::text[]) and ${IS_PAUSED}
    ), paused as (
      insert into fillrate.source_state (source, paused_at, paused_by, pause_reason, resume_at)
      select source, now(), ${by}, ${reason}, ${forMs === null ? sql`null` : sql`now() + ${intervalSql(forMs)}`}
        from unnest(${[...new Set(sources)]}::text[]) as source
      on conflict (source) do update
         set paused_at = now(), paused_by = excluded.paused_by, pause_reason = excluded.pause_reason,
             resume_at = excluded.resume_at
      returning source
    )
    select source from paused where source not in (select source from before)`.execute(db)
  return rows.map((row) => row.source)
}

/** Resumes sources. @returns the sources that were paused before */
export async function resumeSources(db: Connection, sources: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with before as materialized (
      select source from fillrate.source_state
       where source = any(${[...sources]}::text[]) and ${IS_PAUSED} order by source for update
    ), resumed as (
      update fillrate.source_state
         set paused_at = null, paused_by = null, pause_reason = null, resume_at = null
       where source = any(${[...sources]}::text[]) and paused_at is not null
    )
    select source from before`.execute(db)
  return rows.map((row) => row.source)
}

/** A pass over a source by `changedAt`, as of its start. */
export interface CursorPass {
  /** Read changes from here on; null: read the whole table. */
  readonly since: Date | null
  /** Whether to look for rows that are due again: a walk over all that Fillrate keeps of the source. */
  readonly seeksDue: boolean
  /** Since when it is to be looked for them, as Postgres writes it: a Date would lose the microseconds. */
  readonly dueAfter: string | null
  readonly start: PassStart
  readonly cursor: SourceCursor | null
}

/**
 * Opens a pass over a source with `changedAt`: reads how far it was read under this mapping, and the running
 * transactions. Call it before the first page is read. Uses Postgres's clock, as `changedAt` does: a process's
 * clock may be off.
 *
 * Every open transaction holds a lock on its virtual id from its begin, which all roles see; only pg_read_all_stats
 * shows when those of other users began. Autovacuum has no user, and changes no row. A backend that is gone or has
 * no transaction begins none before the first page is read.
 */
export async function openCursor(db: Database, source: string, mappingHash: string): Promise<CursorPass> {
  const { rows } = await sql<{
    now: Date
    running: { id: string; started_at: string | null; is_prepared: boolean }[]
    changed_until: Date | null
    started_at: Date
    running_transactions: Readonly<Record<string, string>>
    full_pass_at: Date
    seeks_due: boolean
    due_text: string | null
  }>`
    select now() as now, p.*, p.due_after::text as due_text, coalesce(p.due_after not between now() and now() + interval '1 hour', true) as seeks_due, (
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
      left join fillrate.source_state p on p.source = ${source}
       and p.mapping_hash = ${mappingHash}`.execute(db)
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
  const since = readSince(cursor, start.now)
  return { since, seeksDue: row.seeks_due, dueAfter: row.due_text, start, cursor }
}

/** Records that a process has these sources in its configuration, at most once an hour for each. */
export async function markConfigured(db: Database, sources: readonly string[]): Promise<void> {
  await sql`
    insert into fillrate.source_state as c (source, configured_at) select unnest(${[...sources]}::text[]), now()
    on conflict (source) do update set configured_at = now()
      where c.configured_at is null or c.configured_at < now() - interval '1 hour'`.execute(db)
}

/**
 * Records that a pass has read to the end. If it has looked for due rows, or has read all, the next look is in an hour, unless rows were
 * made due meanwhile.
 */
export async function saveCursor(
  db: Database,
  source: string,
  mappingHash: string,
  { since, seeksDue, dueAfter, start, cursor }: CursorPass,
): Promise<void> {
  const { changedUntil, running } = advanceCursor(start, cursor)
  const fullPassAt = since === null ? start.now : (cursor?.fullPassAt ?? start.now)
  await sql`
    insert into fillrate.source_state as c
           (source, configured_at, mapping_hash, changed_until, started_at, running_transactions, full_pass_at, due_after)
    values (${source}, now(), ${mappingHash}, ${changedUntil}, ${start.now}, ${JSON.stringify(Object.fromEntries(running))}::jsonb, ${fullPassAt},
            ${start.now}::timestamptz + interval '1 hour')
    on conflict (source) do update
      set mapping_hash = excluded.mapping_hash, changed_until = excluded.changed_until,
          started_at = excluded.started_at, running_transactions = excluded.running_transactions,
          due_after = case when ${seeksDue || since === null}::boolean and c.due_after is not distinct from ${dueAfter}::timestamptz
                           then excluded.due_after else c.due_after end,
          full_pass_at = excluded.full_pass_at`.execute(db)
}

// How fast a source with `writes` is written, for all processes together, by Postgres's clock. A batch charges it
// in its own transaction, so that neither a crash nor an unknown COMMIT writes more than is counted.

interface StoredPace extends WritePace {
  readonly now: number
}

const columnsSql = sql`
  allowance, extract(epoch from allowed_at)::float8 * 1000 as at, extract(epoch from clock_timestamp())::float8 * 1000 as now`

/** What a batch may write, as of a time. */
export interface LockedWriteGrant extends WriteGrant {
  readonly at: number
}

/** What may be written to a source now. Notes that a write waits, for those who wonder why. */
export async function readWriteGrant(db: Connection, source: string, perHour: number): Promise<WriteGrant> {
  // Begins a source, and takes a new limit over.
  await sql`
    insert into fillrate.source_state as p (source, per_hour, allowance, allowed_at)
    values (${source}, ${perHour}, ${grantWrites(perHour, null, 0).allowance}, now())
    on conflict (source) do update
      set per_hour = excluded.per_hour, allowance = coalesce(p.allowance, excluded.allowance),
          allowed_at = coalesce(p.allowed_at, excluded.allowed_at)
      where p.per_hour is distinct from excluded.per_hour`.execute(db)
  const { rows } = await sql<StoredPace>`
    select ${columnsSql} from fillrate.source_state where source = ${source}`.execute(db)
  const grant = grantStored(rows[0], perHour)
  if (grant.waitMs > 0)
    await sql`
      update fillrate.source_state set slowed_at = now()
       where source = ${source}
         and (slowed_at is null or slowed_at < now() - interval '5 seconds')`.execute(db)
  return grant
}

/** The same, locked until the transaction ends; no rows while another process writes to the source. */
export async function lockWriteGrant(tx: Tx, source: string, perHour: number): Promise<LockedWriteGrant> {
  const { rows } = await sql<StoredPace>`
    select ${columnsSql} from fillrate.source_state
     where source = ${source} for update skip locked`.execute(tx)
  return { ...grantStored(rows[0], perHour), at: rows[0]?.now ?? 0 }
}

const grantStored = (pace: StoredPace | undefined, perHour: number): WriteGrant =>
  pace === undefined ? { allowance: 0, rows: 0, waitMs: 0 } : grantWrites(perHour, pace, pace.now)

/** Charges the rows that a batch has written. */
export async function chargeWrites(tx: Tx, source: string, { allowance, at }: WritePace): Promise<void> {
  await sql`
    update fillrate.source_state set allowance = ${allowance}, allowed_at = to_timestamp(${at}::float8 / 1000)
     where source = ${source}`.execute(tx)
}

/** The sources whose writes have waited in the last half minute. */
export async function listSlowedWrites(db: Connection, sources: readonly string[]): Promise<SlowedWrites[]> {
  const { rows } = await sql<SlowedWrites>`
    select source, per_hour from fillrate.source_state
     where source = any(${[...sources]}::text[]) and slowed_at > now() - interval '30 seconds'
     order by source`.execute(db)
  return rows
}

/** How many rows of a source had a value in each column, as a run counted them at its end, in its totals. */
export interface SourceFillRate {
  readonly source: string
  readonly at: Date
  /** Rows that belong to the source. */
  readonly eligible: number
  /** Rows with a value, by column. */
  readonly filled: Readonly<Record<string, number>>
  readonly took_ms: number
  /** The table that was counted: it may have been replaced since. Null: not known. */
  readonly table_node: string | null
}

/** Keeps what a run has counted, once it is closed: closing it stores its totals as a whole. */
export async function saveFillRates(
  db: Database,
  run: number,
  counted: readonly Omit<SourceFillRate, 'at'>[],
): Promise<void> {
  if (counted.length === 0) return
  await sql`
    update fillrate.runs
       set totals = coalesce(totals, '{}') || jsonb_build_object('fill_rates', (
             select jsonb_object_agg(entry ->> 'source', entry - 'source' || jsonb_build_object('at', clock_timestamp()))
               from jsonb_array_elements(${JSON.stringify(counted)}::jsonb) as entry))
     where id = ${run}`.execute(db)
}

/** Counts that are read, of the latest runs. */
const MAX_COUNTS = 1_000

/** The counts of sources, oldest first. */
export async function listFillRates(db: Database, sources: readonly string[]): Promise<SourceFillRate[]> {
  const { rows } = await sql<SourceFillRate>`
    select v.source, v.at, v.eligible, v.filled, v.took_ms, v.table_node
      from (
        select id, totals -> 'fill_rates' as counted
          from fillrate.runs
         where totals ? 'fill_rates'
         order by id desc
         limit ${MAX_COUNTS}
      ) r
     cross join lateral jsonb_each(r.counted) as c (name, count)
     cross join lateral (
       select c.name as source, of.*
         from jsonb_to_record(c.count)
           as of (at timestamptz, eligible bigint, filled jsonb, took_ms integer, table_node text)
     ) v
     where c.name = any(${[...sources]}::text[])
     order by r.id`.execute(db)
  return rows
}

/** The latest count of a source; null: there was none yet. */
export const findFillRate = async (db: Database, source: string): Promise<SourceFillRate | null> =>
  (await listFillRates(db, [source])).at(-1) ?? null

/** A transaction that is open when a pass starts: its changes become visible later, with an earlier time. */
export interface RunningTransaction {
  /** As Postgres names it: no other transaction has this name until the server restarts. */
  readonly id: string
  /** When it began; null: this role may not see it, because another user began it, or it is a prepared one. */
  readonly startedAt: Date | null
  /** It had another name before it was prepared. */
  readonly isPrepared: boolean
}

/** The state of the database at the start of a pass, before anything is read. All times are Postgres's. */
export interface PassStart {
  readonly now: Date
  readonly running: readonly RunningTransaction[]
}

/** How far a source has been read by `changedAt`. */
export interface SourceCursor {
  /** Every row with an older `changedAt` has been read. */
  readonly changedUntil: Date
  /** When the pass that set `changedUntil` started. */
  readonly startedAt: Date
  /** The transactions that were open then, each with a time before which it did not begin. */
  readonly running: ReadonlyMap<string, Date>
  /** When the last pass over the whole table started. */
  readonly fullPassAt: Date
}

/**
 * A change carries a time from before its commit, usually the start of its transaction, so a pass may read past a row
 * that commits a moment later. The open transactions bound that gap; this margin covers times
 * that the application's own clock set.
 */
const MARGIN_MS = 10 * 60_000

/**
 * A full pass finds what no bound covers: a change in a joined table, a row whose `changedAt` did not
 * move or lies years back.
 */
const FULL_PASS_INTERVAL_MS = 7 * 24 * 3_600_000

/** Nothing is known of when a transaction began. */
const EVER = new Date(0)

/**
 * The time from which changes are read; null: read the whole table. A cursor in the future is ignored (a
 * restored backup, a wrong clock): a full pass costs time but loses no row.
 * @example readSince(null, new Date()) // null
 */
export function readSince(cursor: SourceCursor | null, now: Date): Date | null {
  if (cursor === null || cursor.changedUntil > now || cursor.fullPassAt > now) return null
  if (cursor.changedUntil <= EVER) return null
  if (now.getTime() - cursor.fullPassAt.getTime() >= FULL_PASS_INTERVAL_MS) return null
  return new Date(cursor.changedUntil.getTime() - MARGIN_MS)
}

/** How far a pass that began at `start` has read when it is complete, and the transactions that keep it from its start. */
export function advanceCursor(
  start: PassStart,
  cursor: SourceCursor | null,
): Pick<SourceCursor, 'changedUntil' | 'running'> {
  // As in `readSince`.
  const known = cursor !== null && cursor.startedAt <= start.now ? cursor : null
  const running = new Map(start.running.map((tx) => [tx.id, earliestStart(tx, known)]))
  return { changedUntil: [...running.values()].reduce(earliest, start.now), running }
}

/** A time before which a transaction did not begin. */
function earliestStart({ id, startedAt, isPrepared }: RunningTransaction, cursor: SourceCursor | null): Date {
  if (startedAt !== null) return startedAt
  if (cursor === null) return EVER
  // One that was not open when the previous pass started began after that. A prepared one may have been, under another name.
  return cursor.running.get(id) ?? (isPrepared ? cursor.changedUntil : cursor.startedAt)
}

/** @example earliest(new Date(2), new Date(1)) // new Date(1) */
const earliest = (a: Date, b: Date | null): Date => (b !== null && b < a ? b : a)
