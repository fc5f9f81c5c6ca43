import type { Table } from '../sources/catalogue.ts'
import { type Db, query } from '../sources/db.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { type CandidateField, type SampledRow, listCandidateFields } from './fields.ts'
import { readLabels, sampleTableRows } from './sample.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'

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
  /** Whether its row-level security holds for this role. */
  readonly hasRowSecurity: boolean
  /** The name for expressions: quoted if needed, with its schema if that is not on the search path. */
  readonly sqlName: string
  /** Leading columns of complete (not partial) indexes. */
  readonly indexedColumns: readonly string[]
  /** Check constraints and comments of single columns. */
  readonly checks: ReadonlyArray<readonly [column: string, definition: string]>
  readonly comments: ReadonlyArray<readonly [column: string, comment: string]>
}

/** Columns that hold the key of another table's rows. */
export interface ForeignKey {
  /** As `sqlName` of a table. */
  readonly from: string
  readonly columns: readonly string[]
  readonly to: string
  readonly targets: readonly string[]
}

/** A table that was read closely. */
export interface IntrospectedTable extends Pick<TableOverview, 'sqlName' | 'rows' | 'indexedColumns'> {
  readonly table: Table
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
            row_security_active(c.oid) as "hasRowSecurity",
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
    `select k.conrelid::regclass::text as "from", ${columnNamesSql('k.conrelid', 'k.conkey')} as columns,
            k.confrelid::regclass::text as "to", ${columnNamesSql('k.confrelid', 'k.confkey')} as targets
       from pg_constraint k join pg_class c on c.oid = k.conrelid
      where k.contype = 'f' and not c.relispartition and k.conparentid = 0
      order by k.conrelid, k.conname`,
  )

const columnNamesSql = (table: string, numbers: string): string =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality as u(number, place)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = u.number order by place)`

/** Tables that are read, and sources that are checked, at the same time. */
export const MAX_READERS = 4

const CATALOGUE_TIMEOUT_MS = 30_000
const ROWS_TIMEOUT_MS = 5_000

/** Reads the catalogue, which answers in milliseconds. */
export const readCatalogue = <Result>(db: Database, act: (tx: Db) => Promise<Result>): Promise<Result> =>
  inTransaction(db, act, CATALOGUE_TIMEOUT_MS)

/** Reads rows, or goes on without those that take too long or may not be read: names are still evidence. */
export async function readRows<Result>(
  db: Database,
  act: (tx: Db) => Promise<Result>,
  without: Result,
): Promise<Result> {
  try {
    return await inTransaction(db, act, ROWS_TIMEOUT_MS)
  } catch (error) {
    const code = sqlStateOf(error)
    if (code === QUERY_CANCELED || code === '42501' || code.startsWith('22')) return without
    throw error
  }
}

/** Reads a sample of a table's rows, and the labels in them. */
export async function introspectTable(
  db: Database,
  overview: TableOverview,
  table: Table,
): Promise<IntrospectedTable> {
  const { rows, checks, comments } = overview
  const isTable = table.kind === 'table'
  const sample = isTable ? await readRows(db, (tx) => sampleTableRows(tx, { table, rows }), []) : []
  const labels = isTable ? await readRows(db, (tx) => readLabels(tx, { table, rows }, sample), {}) : {}
  const about = (column: string): Partial<CandidateField> => {
    const allowed = checks.flatMap(([of, check]) => (of === column ? parseCheckLabels(check) : []))
    const [codes] = comments.flatMap(([of, comment]) => (of === column ? (parseCodes(comment) ?? []) : []))
    return {
      ...(labels[column] && { labels: labels[column] }),
      ...(allowed.length > 0 && { fit: { kind: 'enum', labels: allowed } }),
      ...(codes && { codes }),
    }
  }
  return {
    ...overview,
    table,
    fields: listCandidateFields(table, sample, about),
    sampled: sample.length,
    sample,
  }
}

/** `CHECK ((stage = ANY (ARRAY['a'::text, 'b'::text])))` → a, b; none for any other check. Pure. */
function parseCheckLabels(definition: string): string[] {
  const [, list = ''] = /= ANY \(+ARRAY\[(.*?)\]/s.exec(definition) ?? []
  return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, label = '']) => label.replaceAll("''", "'"))
}

/** A code with its meaning: with a sign between them, or in capitals. */
const CODES = [
  /^['"]?([\p{L}\p{N}_-]{1,20})['"]?\s*(?:=>?|:|→)\s*['"]?(.+?)['"]?$/u,
  /^([A-Z0-9]{1,4})\s+(.+)$/,
] as const

/**
 * `A: active, L: left the company`, `0 = inactive, 1 = active`, `ACT Active, BAJ Left` in a comment → each code with its
 * meaning; null if there are none. Pure.
 */
function parseCodes(comment: string): ReadonlyMap<string, string> | null {
  const parts = comment
    .replace(/^\s*[\p{L} ]+:\s+(?=\S+\s)/u, (start) =>
      /^\s*(?:enum|values?|codes?)\b/i.test(start) ? '' : start,
    )
    .split(/[,;\n]\s*|\s\|\s/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const [signed, plain] = CODES.map((pattern) => {
    const found = parts.flatMap((part) => {
      const [, code, meaning] = pattern.exec(part) ?? []
      return code !== undefined && meaning !== undefined ? [[code, meaning] as const] : []
    })
    return new Map(found)
  })
  if (signed && signed.size > 1) return signed
  // Without a sign between them, every part must begin with a code.
  return plain && plain.size > 1 && plain.size === parts.length ? plain : null
}
