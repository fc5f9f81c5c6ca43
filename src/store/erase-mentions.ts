import { type RawBuilder, sql } from 'kysely'
import { ERASED_TEXT } from '../domain/subject.ts'
import type { ErasedLookups, RowName } from './erase.ts'
import { readCount } from './sql.ts'
import type { Tx } from './transaction.ts'

/** SQL: a text in the collation of the database. In that of the indexed columns, only ASCII letters match in any case. */
const inAnyCaseSql = (text: RawBuilder<unknown>): RawBuilder<unknown> => sql`(${text} collate "default")`

/** Tables that store cells of rows. */
const CELL_TABLES = {
  rows: { columns: ['last_written', 'earlier_writes', 'own_writes'] },
  changes: { columns: ['before', 'after', 'last_written_before', 'earlier_writes_before'] },
  skipped_cells: { columns: ['detail', 'value'] },
} as const
export type CellTable = keyof typeof CELL_TABLES
export const cellTables = Object.keys(CELL_TABLES) as CellTable[]

const searchedTextSql = (table: CellTable) =>
  inAnyCaseSql(
    sql`concat_ws(' ', key, ${sql.join(CELL_TABLES[table].columns.map((column) => sql`${sql.ref(column)}::text`))})`,
  )

/**
 * Physical places (ctid) of rows whose key or cells match. Searches without a lock, and `eraseCells` changes
 * by place: searching a large table takes minutes, and no pick or write-back may wait for that. A row that
 * moves meanwhile is found by the next search.
 */
export async function findCells(tx: Tx, table: CellTable, pattern: string): Promise<string[]> {
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(`fillrate.${table}`)} where ${searchedTextSql(table)} ~* ${pattern}`.execute(
    tx,
  )
  return rows.map((row) => row.place)
}

/**
 * Erases what is stored of rows whose key names the subject, and of other rows the cells whose values do. Such a cell is left out, not
 * replaced: undo would write the replacement.
 */
export async function eraseCells(
  tx: Tx,
  places: Readonly<Partial<Record<CellTable, readonly string[]>>>,
  pattern: string,
): Promise<Pick<ErasedLookups, 'rows' | 'changes'> & { readonly mentions: number }> {
  const isAt = (table: CellTable) => sql`ctid = any(${[...(places[table] ?? [])]}::tid[])`
  const isNamed = sql`${inAnyCaseSql(sql`key`)} ~* ${pattern}`
  const names = (value: RawBuilder<unknown>) =>
    sql`coalesce(${inAnyCaseSql(sql`(${value})::text`)} ~* ${pattern}, false)`
  /** The object without the cells that one of these objects names the subject in. */
  const without = (cells: RawBuilder<unknown>, ...all: RawBuilder<unknown>[]) => sql`
    case when jsonb_typeof(${cells}) = 'object' then
      (select coalesce(jsonb_object_agg(c.k, c.v), '{}') from jsonb_each(${cells}) c (k, v)
        where not (${sql.join(
          all.map((one) => names(sql`${one} -> c.k`)),
          sql` or `,
        )})) else ${cells} end`
  const count = async (statement: RawBuilder<unknown>): Promise<number> =>
    Number((await statement.execute(tx)).numAffectedRows ?? 0)

  const { rows } = await sql<RowName>`
    delete from fillrate.rows where ${isAt('rows')} and ${isNamed} returning source, key`.execute(tx)
  const written = CELL_TABLES.rows.columns
  let mentions = await count(sql`
    update fillrate.rows set ${sql.join(written.map((column) => sql`${sql.ref(column)} = ${without(sql.ref(column), sql.ref(column))}`))}
     where ${isAt('rows')} and (${sql.join(
       written.map((column) => names(sql.ref(column))),
       sql` or `,
     )})`)
  const recorded = CELL_TABLES.changes.columns
  const all = recorded.map((column) => sql.ref(column))
  const changes = await count(sql`delete from fillrate.changes where ${isAt('changes')} and ${isNamed}`)
  mentions += await count(sql`
    update fillrate.changes set ${sql.join(recorded.map((column) => sql`${sql.ref(column)} = ${without(sql.ref(column), ...all)}`))}
     where ${isAt('changes')} and ${names(sql`concat_ws(' ', ${sql.join(all)})`)}`)
  // Nothing is left of the places: an update moves a row.
  mentions += await count(sql`delete from fillrate.skipped_cells where ${isAt('skipped_cells')}`)
  return { rows, changes, mentions }
}

/** Every table that the migrations create, without their own. */
export const OWN_TABLES: readonly string[] = `
  answered_lookups audit_events changed_rows changed_rows_spare changes circuit_breakers conditions deliveries
  jobs leases lookups processes rate_limits row_counts rows runs
  scheduled_runs services skipped_cells source_state spend suppressions`
  .trim()
  .split(/\s+/)

/** A column in the schema `fillrate` that can hold text. */
export interface TextColumn {
  readonly table: string
  readonly column: string
  readonly type: string
  /** Its text cannot be replaced: it is part of a key, or its table may be the user's. */
  readonly isKept: boolean
}

/**
 * Every text, JSON or bytea column of the schema `fillrate`, from the catalogue. A table that this version does not know may be one of
 * a later version, or the user's: what is found there is reported.
 */
export async function listTextColumns(tx: Tx): Promise<TextColumn[]> {
  const { rows } = await sql<TextColumn>`
    select c.relname as table, a.attname as column, t.typname as type,
           c.relname <> all(${[...OWN_TABLES]}::text[])
             or exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and a.attnum = any(i.indkey)) as "isKept"
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'fillrate'
      join pg_type t on t.oid = a.atttypid
     where a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and t.typname in ('text', 'varchar', 'json', 'jsonb', 'bytea', '_text', '_varchar', '_jsonb')
     order by 1, 2`.execute(tx)
  return rows
}

const columnTextSql = ({ column, type }: TextColumn) =>
  inAnyCaseSql(type === 'bytea' ? sql`encode(${sql.ref(column)}, 'escape')` : sql`${sql.ref(column)}::text`)

/**
 * Whether a column holds what is sent to the service, settled, or written to a user's table: there a placeholder would be
 * taken for a value (undo writes the former cells, a lookup requests its input), so that matches are erased by
 * `eraseLookups`, `eraseCells` and the results of deliveries, and never replaced in the text.
 */
export const isErasedByMeaning = ({ table, column }: Pick<TextColumn, 'table' | 'column'>): boolean =>
  (CELL_COLUMNS[table] ?? BY_MEANING[table])?.includes(column) === true

const CELL_COLUMNS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(CELL_TABLES).map(([table, { columns }]) => [table, columns]),
)
const BY_MEANING: Readonly<Record<string, readonly string[]>> = { lookups: ['input'], deliveries: ['body'] }

/** The number of rows whose column matches a pattern. */
export const countMatches = (tx: Tx, column: TextColumn, pattern: string): Promise<number> =>
  readCount(tx, sql`${sql.table(`fillrate.${column.table}`)} where ${columnTextSql(column)} ~* ${pattern}`)

/**
 * Replaces what a pattern matches by `[erased]`, in a text or JSON column. All matches are found before the
 * first is locked, for the same reason as in `findCells`.
 * @param subject its own lookups, which are erased: they link its identifiers until then
 * @returns the number of rows
 */
export async function redactColumn(
  tx: Tx,
  column: TextColumn,
  pattern: string,
  subject: readonly number[],
): Promise<number> {
  if (column.isKept || !REDACTABLE.has(column.type)) return 0
  const table = sql.table(`fillrate.${column.table}`)
  const name = sql.ref(column.column)
  const text = columnTextSql(column)
  const isLookup = column.table === 'lookups'
  const isOther = isLookup ? sql`id <> all(${[...subject]}::bigint[])` : sql`true`
  // In a record, a value that is the identifier becomes null: a cell may be filled with it.
  const whole = `"[^"\\s]*(?:${pattern})[^"\\s]*"(?!\\s*:)`
  const isRecord = isLookup && column.column === 'record'
  const shortened = isRecord ? sql`regexp_replace(${text}, ${whole}, 'null', 'gi')` : text
  const result = await sql`
    update ${table}
       set ${name} = regexp_replace(${shortened}, ${pattern}, ${ERASED_TEXT}, 'gi')::${sql.raw(column.type)}
     where ctid = any(array(select ctid from ${table} where ${isOther} and ${text} ~* ${pattern}))
       and ${text} ~* ${pattern}`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

const REDACTABLE = new Set(['text', 'varchar', 'json', 'jsonb'])
