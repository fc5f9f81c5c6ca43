import { type Table, readTable } from '../sources/catalogue.ts'
import { type Db, query } from '../sources/db.ts'
import { quoteName } from '../sources/quote.ts'
import type { CandidateField, SampledRow } from './fields.ts'
import type { Fit } from '../sources/column-type.ts'

/** A table as listed in the first pass over the database. */
export interface TableOverview {
  readonly schema: string
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly columns: readonly string[]
  /** Estimated by Postgres; null before its first ANALYZE. */
  readonly rows: number | null
  /** Whether this role may read some column of it. */
  readonly canRead: boolean
  /** The name for expressions: quoted if needed, with its schema if that is not on the search path. */
  readonly sqlName: string
  /** Leading columns of complete (not partial) indexes. */
  readonly indexedColumns: readonly string[]
  /** Check constraints and comments of single columns. */
  readonly checks: ReadonlyArray<readonly [column: string, definition: string]>
  readonly comments: ReadonlyArray<readonly [column: string, comment: string]>
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
export interface IntrospectedTable extends Pick<TableOverview, 'sqlName' | 'rows' | 'indexedColumns'> {
  readonly table: Table
  /** Labels that a check constraint allows, by column. */
  readonly checkLabels: Readonly<Record<string, readonly string[]>>
  /** What the codes of a column mean, as its comment says, by column. */
  readonly codes: Readonly<Record<string, ReadonlyMap<string, string>>>
  readonly fields: readonly CandidateField[]
  /** The number of rows sampled. */
  readonly sampled: number
  readonly sample: readonly SampledRow[]
}

/**
 * All tables and views, those that this role may not read as well: what a database calls its users and tenants is the same for every role. Partitions are left out: their parent is listed.
 */
export const listTableOverviews = (db: Db): Promise<readonly TableOverview[]> =>
  query(
    db,
    `select n.nspname as schema, c.relname as name, nullif(c.reltuples, -1)::float8 as rows,
            case when c.relkind in ('r', 'p') then 'table' else 'view' end as kind,
            has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select') as "canRead",
            array(select a.attname::text from pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns,
            c.oid::regclass::text as "sqlName",
            array(select distinct a.attname::text from pg_index i
                    join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
                   where i.indrelid = c.oid and i.indisvalid and i.indpred is null) as "indexedColumns",
            coalesce((select jsonb_agg(jsonb_build_array(a.attname, pg_get_constraintdef(k.oid)))
                        from pg_constraint k join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
                       where k.conrelid = c.oid and k.contype = 'c' and cardinality(k.conkey) = 1), '[]') as checks,
            coalesce((select jsonb_agg(jsonb_build_array(a.attname, d.description))
                        from pg_description d join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid
                       where d.objoid = c.oid and d.classoid = 'pg_class'::regclass and d.objsubid > 0), '[]') as comments
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
        and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'fillrate')
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

/** Reads a table's columns, not its rows. */
export async function introspectTable(
  db: Db,
  overview: TableOverview,
): Promise<Omit<IntrospectedTable, 'fields' | 'sampled' | 'sample'> | null> {
  const table = await readTable(db, overviewSql(overview))
  if (table === null) return null
  const { sqlName, rows, indexedColumns, checks, comments } = overview
  return {
    table,
    sqlName,
    rows,
    indexedColumns,
    checkLabels: Object.fromEntries(
      checks.flatMap(([column, definition]) => {
        const labels = parseCheckLabels(definition)
        return labels.length > 0 ? [[column, labels]] : []
      }),
    ),
    codes: Object.fromEntries(
      comments.flatMap(([column, comment]) => {
        const codes = parseCodes(comment)
        return codes.size > 1 ? [[column, codes]] : []
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

/**
 * `A: active, L: left the company`, `0 = inactive, 1 = active`, `ACT Active, BAJ Left` in a comment → each code with its
 * meaning. Pure.
 */
export function parseCodes(comment: string): ReadonlyMap<string, string> {
  const parts = comment
    .replace(/^\s*[\p{L} ]+:\s+(?=\S+\s)/u, (start) =>
      /^\s*(?:enum|values?|codes?)\b/i.test(start) ? '' : start,
    )
    .split(/[,;\n]\s*|\s\|\s/)
    .filter((part) => part.trim() !== '')
  const read = (pattern: RegExp): Array<readonly [string, string]> =>
    parts.flatMap((part) => {
      const [, code, meaning] = pattern.exec(part.trim()) ?? []
      return code === undefined || meaning === undefined
        ? []
        : [[code, meaning.trim().replaceAll(/^['"]|['"]$/g, '')] as const]
    })
  const marked = read(/^['"]?([\p{L}\p{N}_-]{1,20})['"]?\s*(?:=>?|:|→)\s*(.+)$/u)
  if (marked.length > 1) return new Map(marked)
  // Without a sign between them, every part must begin with a code.
  const plain = read(/^([A-Z0-9]{1,4})\s+(.+)$/)
  return new Map(plain.length === parts.length && plain.length > 1 ? plain : [])
}

/** Rows sampled from one table. */
const SAMPLE_ROWS = 200

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

/** Rows from which the labels of a table's columns are taken; a rare label would be missing in the sample. */
const LABEL_ROWS = 5_000
const MAX_LABELS = 60
/** A longer text is no label. */
const MAX_LABEL_CHARACTERS = 60

/**
 * The labels of the columns that repeat few texts, by column: at most 60, each used three times on average; of an array,
 * its elements. A column that repeats none is not there.
 */
export async function readLabels(
  db: Db,
  { table, rows }: Pick<IntrospectedTable, 'table' | 'rows'>,
): Promise<Readonly<Record<string, readonly string[]>>> {
  const columns = table.columns.filter(({ type, canSelect }) => canSelect && isText(type.fit))
  if (columns.length === 0) return {}
  const names = columns.map(({ name }) => quoteName(name)).join(', ')
  const lists = columns.map(({ name, type }, n) => {
    const column = `t.${quoteName(name)}`
    const values =
      type.fit.kind === 'array'
        ? `part t, unnest(${column}) as listed(value)`
        : `part t, lateral (select ${column}) as listed(value)`
    return `(select jsonb_build_object('labels', jsonb_agg(label order by label), 'filled', sum(uses)) from
      (select left(listed.value::text, ${MAX_LABEL_CHARACTERS + 1}) as label, count(*) as uses from ${values}
        where btrim(listed.value::text) <> '' group by 1 limit ${MAX_LABELS + 1}) as few) as c${n}`
  })
  const [found] = await query<Readonly<Record<string, { labels: string[] | null; filled: number | null }>>>(
    db,
    `with part as materialized (select ${names} from ${table.sql} t ${tableSampleSql(rows, LABEL_ROWS) ?? ''} limit ${LABEL_ROWS}) select ${lists.join(', ')}`,
  )
  return Object.fromEntries(
    columns.flatMap(({ name, type }, n) => {
      const { labels, filled } = found?.[`c${n}`] ?? { labels: null, filled: 0 }
      const isFew = labels !== null && labels.length <= MAX_LABELS && labels.length * 3 <= (filled ?? 0)
      const isShort = isFew && labels.every((label) => label.length <= MAX_LABEL_CHARACTERS)
      return isShort || (labels !== null && type.fit.kind === 'array') ? [[name, labels]] : []
    }),
  )
}

const isText = (fit: Fit): boolean =>
  fit.kind === 'text' || fit.kind === 'enum' || (fit.kind === 'array' && isText(fit.element))

/**
 * SQL that samples a large table: some pages, four times as many as should hold the rows wanted, because pages may be
 * half empty. Null if the table is smaller or its size is unknown. The sample is repeatable, so that a proposal does
 * not change between runs.
 */
export function tableSampleSql(rows: number | null, wanted = SAMPLE_ROWS): string | null {
  if (rows === null || rows <= LARGE_TABLE_ROWS) return null
  return `tablesample system (${Math.min(100, (400 * wanted) / rows).toFixed(6)}) repeatable (1)`
}
