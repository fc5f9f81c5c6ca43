import { readTables, type Column, type Table } from '../sources/catalogue.ts'
import { query, quoteIfNeeded, type Db } from '../sources/db.ts'
import { permittedSql } from '../sources/row-security.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/error-text.ts'
import { toCellSql, type Cell, type SampledRow } from './cells.ts'
import type { Labels } from './conditions.ts'

/** A table of the user's, as the catalogue lists it for every role. */
export interface ListedTable {
  readonly oid: string
  readonly schema: string
  readonly name: string
  /** The name for expressions: quoted if needed, with its schema if that is not on the search path. */
  readonly sqlName: string
  /** Estimated by Postgres; null before the first ANALYZE. */
  readonly rows: number | null
  readonly columnNames: readonly string[]
  readonly canUseSchema: boolean
  /** Whether row-level security holds for this role. */
  readonly hasRowSecurity: boolean
  /** Whether it may hide every row, because no policy names this role, and none opens all rows to it. */
  readonly lacksSelectPolicy: boolean
  /** The same for the rows that this role may update, if it may update a column. */
  readonly lacksUpdatePolicy: boolean
  /** Null: this role may not read any column of it. */
  readonly table: Table | null
}

/** A declared key of one column, between two tables named as in `ListedTable.sqlName`. */
export interface TableReference {
  readonly from: string
  readonly column: string
  readonly to: string
  readonly target: string
}

/** What the catalogue says. No row was read. */
export interface DatabaseTables {
  /** The role that reads, and the names of policies for it, as SQL writes them. */
  readonly role: string
  readonly policy: string
  readonly updatePolicy: string
  readonly tables: readonly ListedTable[]
  readonly references: readonly TableReference[]
  /** CHECK constraints of one column. */
  readonly checks: ReadonlyArray<{
    readonly table: string
    readonly column: string
    readonly definition: string
  }>
}

/** Reads the catalogue in six statements, however many tables there are. */
export async function readDatabaseTables(db: Db): Promise<DatabaseTables> {
  const [role] = await query<Pick<DatabaseTables, 'role' | 'policy' | 'updatePolicy'>>(
    db,
    `select quote_ident(current_user) as role, quote_ident(current_user || '_select') as policy,
            quote_ident(current_user || '_update') as "updatePolicy"`,
  )
  const listed = await query<Omit<ListedTable, 'table'> & { canRead: boolean }>(db, TABLES_QUERY)
  const readable = listed.filter(({ canRead }) => canRead).map(({ sqlName }) => sqlName)
  const read = await readTables(db, readable)
  const byName = new Map(read.map((table) => [`${table.schema}.${table.name}`, table]))
  return {
    ...(role ?? { role: '', policy: '', updatePolicy: '' }),
    tables: listed.map((table) => ({ ...table, table: byName.get(`${table.schema}.${table.name}`) ?? null })),
    references: await query(db, REFERENCES_QUERY),
    checks: await query(db, CHECKS_QUERY),
  }
}

/** SQL: whether row-level security of a table `c` has no policy of a command that was made for this role or opens all rows. */
const lacksPolicySql = (command: 'r' | 'w'): string =>
  `row_security_active(c.oid) and ${permittedSql(command)} is distinct from 'true' and not exists (
           select from pg_policy p
            where p.polrelid = c.oid and p.polcmd in ('*', '${command}') and p.polpermissive and p.polqual is not null
              and quote_ident(current_user)::regrole = any (p.polroles))`

/** Partitions are left out, because their parent is listed; so is what belongs to an extension. */
const TABLES_QUERY = `
  select c.oid::text as oid, n.nspname as schema, c.relname as name, c.oid::regclass::text as "sqlName",
         nullif(c.reltuples, -1)::float8 as rows,
         array(select a.attname::text from pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as "columnNames",
         has_schema_privilege(n.oid, 'usage') as "canUseSchema",
         has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select') as "canRead",
         row_security_active(c.oid) as "hasRowSecurity",
         ${lacksPolicySql('r')} as "lacksSelectPolicy",
         ${lacksPolicySql('w')} and has_any_column_privilege(c.oid, 'update') as "lacksUpdatePolicy"
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p') and not c.relispartition
     and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'fillrate')
     and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
   order by 2, 3`

const REFERENCES_QUERY = `
  select k.conrelid::regclass::text as "from", f.attname as "column",
         k.confrelid::regclass::text as "to", p.attname as target
    from pg_constraint k
    join pg_attribute f on f.attrelid = k.conrelid and f.attnum = k.conkey[1]
    join pg_attribute p on p.attrelid = k.confrelid and p.attnum = k.confkey[1]
   where k.contype = 'f' and cardinality(k.conkey) = 1 and k.conparentid = 0
   order by 1, 2`

const CHECKS_QUERY = `
  select k.conrelid::regclass::text as "table", a.attname as "column", pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
   where k.contype = 'c' and cardinality(k.conkey) = 1`

/** The labels that an enum or a CHECK allows in a column: `CHECK ((stage = ANY (ARRAY['a'::text, 'b'::text])))`; empty: any. */
export function listAllowedLabels(
  { checks }: DatabaseTables,
  table: string,
  column: Column,
): readonly string[] {
  const { fit } = column.type
  if (fit.kind === 'enum') return fit.labels
  return checks.flatMap((check) => {
    if (check.table !== table || check.column !== column.name) return []
    const [, list = ''] = /= ANY \(+ARRAY\[(.*?)\]/s.exec(check.definition) ?? []
    return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, label = '']) => label.replaceAll("''", "'"))
  })
}

/** The columns that identify a row: the primary key, or else the first unique index over columns that are never NULL. */
export function chooseKey(table: Table): readonly string[] {
  const isNeverNull = (name: string): boolean =>
    table.columns.find((column) => column.name === name)?.notNull === true
  if (table.primaryKey.length > 0) return table.primaryKey
  return table.uniqueKeys.find((key) => key.every(isNeverNull)) ?? []
}

/** Of each statement that reads rows. */
const ROWS_TIMEOUT_MS = 5_000

/** Reads rows; null where that takes too long, or where the role lacks a right that a policy or a function of the table needs. */
async function readRows<Row>(db: Database, text: string): Promise<readonly Row[] | null> {
  try {
    return await inTransaction(db, (tx: Db) => query<Row>(tx, text), ROWS_TIMEOUT_MS)
  } catch (error) {
    const state = sqlStateOf(error)
    if (state === QUERY_CANCELED || state === '42501' || state.startsWith('22')) return null
    throw error
  }
}

/** Rows by which the columns of a table are recognized. */
const SAMPLE_ROWS = 500
/** Enough for an address or a URL. */
const MAX_CHARACTERS = 300
/** Longer documents are not read. */
const MAX_JSON_BYTES = 20_000
/** A larger table is sampled by its pages. */
const SMALL_TABLE_ROWS = 20_000

/** SQL that reads about this many rows of a large table, spread over it, and the same ones every time. */
const spreadSql = (rows: number, wanted: number): string =>
  rows <= SMALL_TABLE_ROWS
    ? ''
    : `tablesample system (${Math.min(100, (150 * wanted) / rows).toFixed(6)}) repeatable (1)`

/**
 * Samples at most 500 rows of a table, their long texts cut. Null where that takes too long.
 * @param rows an estimate; null: unknown
 */
export async function sampleRows(
  db: Database,
  { sql, columns }: Table,
  rows: number | null,
): Promise<readonly SampledRow[] | null> {
  const values = columns.flatMap(({ name, canSelect, type: { fit } }) => {
    const own = `t.${quoteIfNeeded(name)}`
    if (!canSelect || fit.kind === 'other') return []
    const isJson = fit.kind === 'json' || fit.kind === 'jsonb'
    const value = isJson
      ? `case when pg_column_size(${own}) < ${MAX_JSON_BYTES} then ${own}::jsonb end`
      : fit.kind === 'array'
        ? `to_jsonb(${own}[1:20])`
        : `left(${own}::text, ${MAX_CHARACTERS})`
    return [`${value} as ${own.slice(2)}`]
  })
  if (values.length === 0) return []
  const read = (spread: string): Promise<readonly SampledRow[] | null> =>
    readRows(db, `select ${values.join(', ')} from ${sql} as t ${spread} limit ${SAMPLE_ROWS}`)
  const spread = spreadSql(rows ?? 0, SAMPLE_ROWS)
  const found = await read(spread)
  // Pages may be half empty, and the estimate of the rows may be old.
  return spread !== '' && (found?.length ?? 0) < SAMPLE_ROWS / 5 ? read('') : found
}

/** SQL, what the rows of a cell are counted by: `true`, `past`, the text of the value, each element of a list. */
export function toLabelSql(cell: Cell, alias = 't'): string {
  const own = toCellSql(cell, alias)
  if (cell.kind === 'time')
    return `case when ${own} <= now() then 'past' when ${own} > now() then 'future' end`
  if (cell.kind !== 'list') return `left(btrim((${own})::text), ${MAX_CHARACTERS})`
  if (cell.column.type.fit.kind === 'array') return `distinct unnest(${own})::text`
  return `distinct jsonb_array_elements_text(case jsonb_typeof((${own})::jsonb) when 'array' then (${own})::jsonb end)`
}

interface Counts {
  readonly rows: number
  readonly of: 'table' | 'sample'
  /** In the order in which the labels were given. */
  readonly labels: readonly Labels[]
}

/** Of a cell with more labels, which is no short list, the rest is not counted. */
const COUNTED_LABELS = 30
/** The rows that are counted of a table that is too large to be counted whole. */
const COUNTED_ROWS = 20_000

/**
 * Counts the rows with each label in one statement, before any condition; where that takes too long, of some rows. Null where even
 * that does.
 * @param from the table with the alias of its cells
 * @param count SQL that counts: the rows, or what they refer to
 */
export async function countLabels(
  db: Database,
  from: string,
  rows: number | null,
  labels: readonly string[],
  count = 'count(*)',
): Promise<Counts | null> {
  const labelled = labels.map((sql, n) => ` union all (select ${sql}, ${n})`).join('')
  const read = (spread: string): Promise<ReadonlyArray<{ n: number; label: string; rows: number }> | null> =>
    readRows(
      db,
      `select n, label, rows from (
         select v.n, v.label, ${count}::float8 as rows,
                row_number() over (partition by v.n order by ${count} desc, v.label) as place
           from ${from} ${spread}
           cross join lateral (select null::text, -1${labelled}) as v(label, n)
          where v.n = -1 or v.label <> ''
          group by v.n, v.label) as c
        where place <= ${COUNTED_LABELS} order by n, place`,
    )
  const whole = await read('')
  const found = whole ?? (await read(spreadSql(rows ?? COUNTED_ROWS, COUNTED_ROWS)))
  if (found === null) return null
  const byCell = Map.groupBy(found, ({ n }) => n)
  return {
    rows: byCell.get(-1)?.[0]?.rows ?? 0,
    of: whole === null ? 'sample' : 'table',
    labels: labels.map((_, n) => new Map((byCell.get(n) ?? []).map(({ label, rows }) => [label, rows]))),
  }
}
