import { sql } from 'kysely'
import type { PausedSource, SlowedWrites } from '../domain/report/status.ts'
import { grantWrites, type WriteGrant, type WritePace } from '../domain/write-pace.ts'
import type { Database } from './open.ts'
import type { Connection, Tx } from './transaction.ts'

// The table `source_state`, one row a source: whether it is paused, and how fast it is written.

/** All paused sources, in order of their names. */
export async function listPaused(db: Connection): Promise<PausedSource[]> {
  const { rows } = await sql<PausedSource>`
    select source, paused_at, paused_by, pause_reason as reason
      from fillrate.source_state where paused_at is not null order by source`.execute(db)
  return rows
}

/** Which of these sources are paused, in order. */
export async function filterPaused(db: Connection, sources: readonly string[]): Promise<string[]> {
  const paused = await listPaused(db)
  return paused.map(({ source }) => source).filter((source) => sources.includes(source))
}

/**
 * Pauses sources. The last pause counts: it replaces the reason of one before.
 * @returns the sources that were not paused before
 */
export async function pauseSources(
  db: Connection,
  sources: readonly string[],
  { by, reason }: { readonly by: string; readonly reason: string | null },
): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with before as (
      select source from fillrate.source_state where source = any(${[...sources]}::text[]) and paused_at is not null
    ), paused as (
      insert into fillrate.source_state (source, paused_at, paused_by, pause_reason)
      select source, now(), ${by}, ${reason}
        from unnest(${[...new Set(sources)]}::text[]) as source
      on conflict (source) do update
         set paused_at = now(), paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
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
       where source = any(${[...sources]}::text[]) and paused_at is not null order by source for update
    ), resumed as (
      update fillrate.source_state
         set paused_at = null, paused_by = null, pause_reason = null
       where source in (select source from before)
    )
    select source from before`.execute(db)
  return rows.map((row) => row.source)
}

/** Records that a process has these sources in its configuration, at most once an hour for each. */
export async function markConfigured(db: Database, sources: readonly string[]): Promise<void> {
  await sql`
    insert into fillrate.source_state as c (source, configured_at) select unnest(${[...sources]}::text[]), now()
    on conflict (source) do update set configured_at = now()
      where c.configured_at is null or c.configured_at < now() - interval '1 hour'`.execute(db)
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

/** The latest count of each source. */
export async function listFillRates(db: Database, sources: readonly string[]): Promise<SourceFillRate[]> {
  const { rows } = await sql<SourceFillRate>`
    select distinct on (v.source) v.source, v.at, v.eligible, v.filled, v.took_ms
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
           as of (at timestamptz, eligible bigint, filled jsonb, took_ms integer)
     ) v
     where c.name = any(${[...sources]}::text[])
     order by v.source, r.id desc`.execute(db)
  return rows
}
