import { type Table, readTable } from '../sources/catalogue.ts'
import { type Db, query } from '../sources/db.ts'
import { quoteName } from '../sources/quote.ts'
import { splitIdentifier } from './identifier-words.ts'
import type { CandidateField, SampledRow } from './fields.ts'

/** A table as listed in the first pass over the database. */
export interface TableOverview {
  readonly schema: string
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly columns: readonly string[]
  /** Estimated by Postgres; null before its first ANALYZE. */
  readonly rows: number | null
}

/** Qualified and quoted, as `Table.sql`. */
export const overviewSql = ({ schema, name }: Pick<TableOverview, 'schema' | 'name'>): string =>
  `${quoteName(schema)}.${quoteName(name)}`

/** Columns that hold the key of another table's rows. */
export interface ForeignKey {
  /** Qualified and quoted, as `Table.sql`. */
  readonly from: string
  readonly columns: readonly string[]
  readonly to: string
  readonly targets: readonly string[]
}

/** A table that was read closely. */
export interface IntrospectedTable {
  readonly table: Table
  /** The name for expressions: quoted if needed, with its schema if that is not on the search path. */
  readonly sqlName: string
  readonly rows: number | null
  /** Leading columns of complete (not partial) indexes. */
  readonly indexedColumns: readonly string[]
  /** Labels that a check constraint allows, by column. */
  readonly checkLabels: Readonly<Record<string, readonly string[]>>
  readonly fields: readonly CandidateField[]
  /** The number of rows sampled. */
  readonly sampled: number
}

/** All user tables and views that this role may read. Partitions are left out: their parent is listed. */
export const listTableOverviews = (db: Db): Promise<readonly TableOverview[]> =>
  query(
    db,
    `select n.nspname as schema, c.relname as name, nullif(c.reltuples, -1)::float8 as rows,
            case when c.relkind in ('r', 'p') then 'table' else 'view' end as kind,
            array(select a.attname::text from pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
        and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'fillrate')
        and has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select')
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      order by 1, 2 limit 10000`,
  )

/** Every foreign key of the database. */
export const listForeignKeys = (db: Db): Promise<readonly ForeignKey[]> =>
  query(
    db,
    `select ${qualifiedNameSql('f')} as "from", ${columnNamesSql('k.conrelid', 'k.conkey')} as columns,
            ${qualifiedNameSql('t')} as "to", ${columnNamesSql('k.confrelid', 'k.confkey')} as targets
       from pg_constraint k
       join pg_class f on f.oid = k.conrelid join pg_namespace fn on fn.oid = f.relnamespace
       join pg_class t on t.oid = k.confrelid join pg_namespace tn on tn.oid = t.relnamespace
      where k.contype = 'f' and not f.relispartition and k.conparentid = 0
      order by k.conrelid, k.conname`,
  )

/** Always in double quotes, like `Table.sql`; `quote_ident` omits them if it can. */
const qualifiedNameSql = (alias: string): string =>
  `'"' || replace(${alias}n.nspname, '"', '""') || '"."' || replace(${alias}.relname, '"', '""') || '"'`

const columnNamesSql = (table: string, numbers: string): string =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality as u(number, place)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = u.number order by place)`

/** Reads a table's columns, indexes and checks, not its rows. */
export async function introspectTable(
  db: Db,
  overview: TableOverview,
): Promise<Omit<IntrospectedTable, 'fields' | 'sampled'> | null> {
  const name = overviewSql(overview)
  const table = await readTable(db, name)
  if (table === null) return null
  const [found] = await query<{
    in_sql: string
    indexed: string[]
    checks: { column: string; definition: string }[]
  }>(
    db,
    `select c.oid::regclass::text as in_sql,
            array(select distinct a.attname::text from pg_index i
                    join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
                   where i.indrelid = c.oid and i.indisvalid and i.indpred is null) as indexed,
            coalesce((select jsonb_agg(jsonb_build_object('column', a.attname, 'definition', pg_get_constraintdef(k.oid)))
                        from pg_constraint k join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
                       where k.conrelid = c.oid and k.contype = 'c' and cardinality(k.conkey) = 1), '[]') as checks
       from pg_class c where c.oid = $1::regclass`,
    [name],
  )
  return {
    table,
    sqlName: found?.in_sql ?? name,
    rows: overview.rows,
    indexedColumns: found?.indexed ?? [],
    checkLabels: Object.fromEntries(
      (found?.checks ?? []).flatMap(({ column, definition }) => {
        const labels = parseCheckLabels(definition)
        return labels.length > 0 ? [[column, labels]] : []
      }),
    ),
  }
}

/** `CHECK ((stage = ANY (ARRAY['a'::text, 'b'::text])))` → a, b; empty for any other check. Pure. */
export function parseCheckLabels(definition: string): string[] {
  const list = /= ANY \(+ARRAY\[(.*?)\]/s.exec(definition)?.[1]
  if (list === undefined) return []
  return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, label = '']) => label.replaceAll("''", "'"))
}

/** Rows sampled from one table. */
export const SAMPLE_ROWS = 200

/** Above this, only some pages of a table are read. */
const LARGE_TABLE_ROWS = 20_000

/** Enough to recognise an email address or a URL. */
const MAX_VALUE_CHARACTERS = 300

/** Longer documents are not parsed. */
const MAX_JSON_BYTES = 20_000

/**
 * Samples at most 200 rows: the beginning of long values, the first element of arrays. Not the first rows of the
 * table, because those are its oldest.
 */
export async function sampleTableRows(
  db: Db,
  table: Table,
  rows: number | null,
): Promise<readonly SampledRow[]> {
  const columns = table.columns.filter((column) => column.canSelect)
  if (columns.length === 0) return []
  const list = columns.map(({ name, type }, n) => {
    const column = `t.${quoteName(name)}`
    switch (type.fit.kind) {
      case 'json':
      case 'jsonb':
        return `case when pg_column_size(${column}) < ${MAX_JSON_BYTES} then ${column}::jsonb end as c${n}`
      case 'array':
        return `left(${column}[1]::text, ${MAX_VALUE_CHARACTERS}) as c${n}`
      default:
        return `left(${column}::text, ${MAX_VALUE_CHARACTERS}) as c${n}`
    }
  })
  const read = (from: string): Promise<readonly Record<string, unknown>[]> =>
    query(db, `select ${list.join(', ')} from ${table.sql} as t ${from} limit ${SAMPLE_ROWS}`)
  const spread = tableSampleSql(rows)
  const some = spread === null ? [] : await read(spread)
  const found = some.length >= SAMPLE_ROWS / 2 ? some : await read(await spreadOrderSql(db, table))
  return found.map((row) => Object.fromEntries(columns.map(({ name }, n) => [name, row[`c${n}`]])))
}

/** A table of more bytes is not read whole. */
const MAX_WHOLE_BYTES = 50_000_000

async function isSmall(db: Db, { sql }: Pick<Table, 'sql'>): Promise<boolean> {
  const [size] = await query<{ bytes: number }>(
    db,
    `select coalesce((select sum(pg_relation_size(relid)) from pg_partition_tree($1::regclass)), pg_relation_size($1::regclass))::float8 as bytes`,
    [sql],
  )
  return (size?.bytes ?? Infinity) <= MAX_WHOLE_BYTES
}

/** SQL that spreads the sample over a small table: its first and its last rows may be of one kind. */
export const spreadOrderSql = async (db: Db, table: Pick<Table, 'sql'>): Promise<string> =>
  (await isSmall(db, table)) ? 'order by md5(t.ctid::text)' : ''

/** Columns whose few labels decide about rows; a rare one would be missing in the sample. */
const LABEL_COLUMN =
  /(?:^|_)(?:type|kind|category|class|status|statut|state|lifecycle|stage|role|channel|module|model)$/i
const MAX_LABELS = 40

/** All labels of such columns, by column; of a small table only. */
export async function readLabels(db: Db, table: Table): Promise<Readonly<Record<string, readonly string[]>>> {
  const columns = table.columns.filter(
    ({ name, type, canSelect }) =>
      canSelect && type.fit.kind === 'text' && LABEL_COLUMN.test(splitIdentifier(name).join('_')),
  )
  if (columns.length === 0 || !(await isSmall(db, table))) return {}
  const lists = columns.map(
    ({ name }, n) =>
      `(select array_agg(label) from (select distinct left(t.${quoteName(name)}, 80) as label from ${table.sql} t limit ${MAX_LABELS + 1}) as few where btrim(label) <> '') as c${n}`,
  )
  const [found] = await query<Readonly<Record<string, string[] | null>>>(db, `select ${lists.join(', ')}`)
  return Object.fromEntries(
    columns.flatMap(({ name }, n) => {
      const labels = found?.[`c${n}`] ?? []
      return labels.length === 0 || labels.length > MAX_LABELS ? [] : [[name, labels.toSorted()]]
    }),
  )
}

/**
 * SQL that samples a large table: some pages, four times as many as should hold the rows wanted, because pages may be
 * half empty. Null if the table is smaller or its size is unknown. The sample is repeatable, so that a proposal does
 * not change between runs.
 */
export function tableSampleSql(rows: number | null): string | null {
  if (rows === null || rows <= LARGE_TABLE_ROWS) return null
  return `tablesample system (${Math.min(100, (400 * SAMPLE_ROWS) / rows).toFixed(6)}) repeatable (1)`
}
