import { type RawBuilder, sql } from 'kysely'
import type { SkippedGroup } from '../domain/report/run.ts'
import { parseExactJson } from '../domain/json.ts'
import type { RowState } from '../domain/row.ts'
import { describeSkip, MAX_LISTED_VALUES, type SkippedCell } from '../domain/skipped-cell.ts'
import { withServiceNames } from './services.ts'
import {
  inSourceSql,
  jsonBatch,
  parseColumns,
  readPages,
  type SourceFilter,
  unnestByRow,
  type WithText,
} from './sql.ts'
import type { Connection } from './transaction.ts'

/** The skipped cells of one row. */
interface SkippedCellsOfRow {
  readonly key: string
  /** Absent: the row's own. */
  readonly lookup?: number
  readonly skipped: readonly SkippedCell[]
}

/**
 * SQL, a statement for a WITH clause: deletes the skipped cells of rows. Goes from the keys to the cells by the index
 * (`offset 0`), whatever the statistics say: most rows have none. If the source has none, no key is searched. The state is
 * that of the cell's row, not of the key, or it would be read for every key.
 * @param isWaiting only of rows that wait, and not what services before this one have skipped of a row that they found
 */
export const deleteSkippedCellsSql = (
  source: string,
  keys: readonly string[],
  { isWaiting = false } = {},
): RawBuilder<unknown> => sql`
  delete from fillrate.skipped_cells c
   using unnest(${[...keys]}::text[]) as k (key)
   cross join lateral (
     select ctid from fillrate.skipped_cells where source = ${source} and key = k.key offset 0) as target
   where c.ctid = target.ctid and exists (select from fillrate.skipped_cells where source = ${source})
     ${
       isWaiting
         ? sql`and (
       select state = 'waiting' and not (only_blanks and coalesce(c.lookup_id <> lookup_id and c.lookup_id = any(missed_lookup_ids), false))
         from fillrate.rows where source = ${source} and key = c.key offset 0)`
         : sql``
     }`

/**
 * Stores skipped cells with the run and lookup of their rows, in one statement; none if there are none. Of two reasons for
 * one cell, the first counts. Those that the rows had before must have been deleted.
 */
export async function insertSkippedCells(
  tx: Connection,
  source: string,
  rows: readonly SkippedCellsOfRow[],
): Promise<void> {
  const cells = rows.flatMap(({ key, lookup = null, skipped }) =>
    skipped.map((cell) => ({ key, lookup, ...cell })),
  )
  if (cells.length === 0) return
  await sql`
    insert into fillrate.skipped_cells (source, key, "column", run_id, lookup_id, reason, detail, value)
    select ${source},
           v.key,
           v."column",
           r.run_id,
           coalesce(v.lookup, r.lookup_id),
           v.reason,
           v.detail,
           v.value
      from jsonb_to_recordset(${jsonBatch(cells)}) as v
           (key text, lookup bigint, "column" text, reason text, detail text, value jsonb)
     cross join lateral (
       select run_id, lookup_id from fillrate.rows where source = ${source} and key = v.key offset 0) as r
        on conflict do nothing`.execute(tx)
}

/** Deletes what services before this one have skipped of cells that it has filled. */
export async function deleteFilledCells(
  tx: Connection,
  source: string,
  rows: readonly { readonly key: string; readonly filled?: readonly string[] }[],
): Promise<void> {
  const cells = rows.flatMap(({ key, filled = [] }) => filled.map((column) => ({ key, column })))
  if (cells.length === 0) return
  await sql`
    delete from fillrate.skipped_cells c using jsonb_to_recordset(${jsonBatch(cells)}) as v (key text, "column" text)
     where c.source = ${source} and c.key = v.key and c."column" = v."column"`.execute(tx)
}

/** Deletes the skipped cells of rows. */
export async function deleteSkippedCells(
  tx: Connection,
  source: string,
  keys: readonly string[],
): Promise<void> {
  if (keys.length > 0) await deleteSkippedCellsSql(source, keys).execute(tx)
}

/**
 * Replaces what was skipped of the record of a lookup in finished rows that still have it. Skips rows that another transaction
 * has locked: it stores its own.
 */
export async function replaceSkippedCells(
  tx: Connection,
  source: string,
  rows: readonly (SkippedCellsOfRow & { readonly lookup: number })[],
): Promise<void> {
  if (rows.length === 0) return
  const { rows: locked } = await sql<{ key: string }>`
    select r.key
      from ${unnestByRow(source, rows, { lookup: 'bigint' })} join fillrate.rows r on r.ctid = v.ctid
     where v.lookup = any(r.missed_lookup_ids || r.lookup_id) and r.state <> 'waiting'
       for no key update of r skip locked`.execute(tx)
  const keys = new Set(locked.map((row) => row.key))
  const held = rows.filter(({ key }) => keys.has(key))
  if (held.length === 0) return
  // What is noted of another lookup of the row is that of another service.
  await sql`
    delete from fillrate.skipped_cells c
     using jsonb_to_recordset(${jsonBatch(held.map(({ key, lookup }) => ({ key, lookup })))}) as v (key text, lookup bigint)
     cross join lateral (
       select missed_lookup_ids || lookup_id as lookups from fillrate.rows where source = ${source} and key = v.key offset 0) as r
     cross join lateral (
       select ctid from fillrate.skipped_cells
        where source = ${source} and key = v.key and not coalesce(lookup_id <> v.lookup and lookup_id = any(r.lookups), false) offset 0) as target
     where c.ctid = target.ctid`.execute(tx)
  await insertSkippedCells(tx, source, held)
}

/** Which skipped cells: null is all. */
interface SkippedFilter {
  readonly source?: SourceFilter
  /** Of rows in these states. */
  readonly states?: readonly RowState[] | null
  readonly run?: number | null
}

const matchesSkippedSql = ({ source = null, states = null, run = null }: SkippedFilter) => sql`
  ${inSourceSql(sql`c.source`, source)}
  and ${run === null ? sql`true` : sql`c.run_id = ${run}`}
  and ${states === null ? sql`true` : sql`exists (select from fillrate.rows r where r.source = c.source and r.key = c.key and r.deleted_at is null and r.state = any(${[...states]}::text[]))`}`

type StoredGroup = Omit<SkippedGroup, 'description' | 'values'> & { readonly values: string }

/** Skipped cells by column and reason, the most frequent first, each with its most frequent values. */
export async function groupSkippedCells(
  db: Connection,
  filter: SkippedFilter,
  maxValues = MAX_LISTED_VALUES,
): Promise<SkippedGroup[]> {
  const { rows } = await sql<StoredGroup>`
    with counted as (
      select c.source, c."column", c.reason, c.detail, c.value, count(*) as rows
        from fillrate.skipped_cells c
       where ${matchesSkippedSql(filter)}
       group by 1, 2, 3, 4, 5
    ), ranked as (
      select *, row_number() over (partition by source, "column", reason, detail order by rows desc, value::text) as place
        from counted
    )
    select source, "column", reason, detail, sum(rows)::bigint as rows, count(*) as distinct_values,
           coalesce(json_agg(json_build_object('value', value, 'rows', rows) order by place)
                      filter (where place <= ${maxValues}), '[]')::text as values
      from ranked
     group by 1, 2, 3, 4
     order by rows desc, 1, 2, 3, 4`.execute(db)
  return rows.map(({ values, ...group }) => ({
    ...group,
    description: describeSkip(group),
    values: parseExactJson(values) as SkippedGroup['values'],
  }))
}

/** A skipped cell with its row. */
export interface SkippedRow extends SkippedCell {
  readonly source: string
  readonly key: string
  /** The state of its row. */
  readonly state: RowState
  /** The reason in words. */
  readonly description: string
  readonly run: number | null
  readonly skipped_at: Date
  /** The service whose record had the value. Absent: the database knows one alone. */
  readonly service?: string
}

interface StoredSkippedRow extends Omit<SkippedRow, 'description' | 'service'> {
  readonly service_id: number | null
}

async function selectSkipped(
  db: Connection,
  where: RawBuilder<unknown>,
  limit: number | null = null,
): Promise<SkippedRow[]> {
  const { rows } = await sql<WithText<StoredSkippedRow, 'value'>>`
    select c.source,
           c.key,
           r.state,
           c."column",
           c.reason,
           c.detail,
           c.value::text as value,
           c.run_id as run,
           c.skipped_at,
           (select service_id from fillrate.lookups where id = c.lookup_id) as service_id
      from fillrate.skipped_cells c join fillrate.rows r on r.source = c.source and r.key = c.key and r.deleted_at is null
     where ${where} order by c.source, c.key, c."column" limit ${limit}`.execute(db)
  const named = await withServiceNames(db, parseColumns<StoredSkippedRow, 'value'>(rows, ['value']))
  return named.map((row) => ({ ...row, description: describeSkip(row) }))
}

/** The skipped cells of one row. */
export const listSkippedCellsOfRow = (db: Connection, source: string, key: string): Promise<SkippedRow[]> =>
  selectSkipped(db, sql`c.source = ${source} and c.key = ${key}`)

/** Skipped cells in the order of source, key and column, page by page. */
export const iterateSkippedCells = (
  db: Connection,
  filter: SkippedFilter,
  size?: number,
): AsyncGenerator<SkippedRow[]> =>
  readPages<SkippedRow>((after, limit) => {
    const beyond = after
      ? sql`(c.source, c.key, c."column") > (${after.source}, ${after.key}, ${after.column})`
      : sql`true`
    return selectSkipped(db, sql`${matchesSkippedSql(filter)} and ${beyond}`, limit)
  }, size)
