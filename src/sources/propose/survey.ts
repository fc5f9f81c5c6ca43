import { readTable, type Table } from '../catalogue.ts'
import { query, type Db } from '../db.ts'
import { quoteName } from '../quote.ts'
import type { Field } from './field.ts'

/** A table as a first look at the whole database shows it. */
export interface Overview {
  readonly schema: string
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly columns: readonly string[]
  /** Estimated by Postgres at its last look; null when it never looked. */
  readonly rows: number | null
}

/** A column, or several, whose values are the keys of another table's rows. */
export interface Reference {
  /** Qualified and quoted, as `Table.sql`. */
  readonly from: string
  readonly columns: readonly string[]
  readonly to: string
  readonly targets: readonly string[]
}

/** A table that was read closely. */
export interface Surveyed {
  readonly table: Table
  /** As it is written in an expression: quoted where it must be, with its schema where it is not on the search path. */
  readonly inSql: string
  readonly rows: number | null
  /** Columns that some whole index begins with. */
  readonly indexed: readonly string[]
  /** Labels that a check constraint allows, by column. */
  readonly checked: Readonly<Record<string, readonly string[]>>
  readonly fields: readonly Field[]
}

/** All tables and views that a user made and this role may read. Partitions are left to the table they are part of. */
export const readOverview = (db: Db): Promise<readonly Overview[]> =>
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
export const readReferences = (db: Db): Promise<readonly Reference[]> =>
  query(
    db,
    `select ${quoted('f')} as "from", ${names('k.conrelid', 'k.conkey')} as columns,
            ${quoted('t')} as "to", ${names('k.confrelid', 'k.confkey')} as targets
       from pg_constraint k
       join pg_class f on f.oid = k.conrelid join pg_namespace fn on fn.oid = f.relnamespace
       join pg_class t on t.oid = k.confrelid join pg_namespace tn on tn.oid = t.relnamespace
      where k.contype = 'f' and not f.relispartition and k.conparentid = 0
      order by k.conrelid, k.conname`,
  )

/** In double quotes always, as `Table.sql` is; `quote_ident` would leave them out where it can. */
const quoted = (alias: string): string =>
  `'"' || replace(${alias}n.nspname, '"', '""') || '"."' || replace(${alias}.relname, '"', '""') || '"'`

const names = (table: string, numbers: string): string =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality as u(number, place)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = u.number order by place)`

/** One table with what its indexes and checks tell, without a look at its rows. */
export async function surveyTable(db: Db, overview: Overview): Promise<Omit<Surveyed, 'fields'> | null> {
  const name = `${quoteName(overview.schema)}.${quoteName(overview.name)}`
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
    inSql: found?.in_sql ?? name,
    rows: overview.rows,
    indexed: found?.indexed ?? [],
    checked: Object.fromEntries(
      (found?.checks ?? []).flatMap(({ column, definition }) => {
        const labels = labelsIn(definition)
        return labels.length > 0 ? [[column, labels]] : []
      }),
    ),
  }
}

/** `CHECK ((stage = ANY (ARRAY['a'::text, 'b'::text])))` → a, b; nothing for any other check. Pure. */
export function labelsIn(definition: string): string[] {
  const list = /= ANY \(+ARRAY\[(.*?)\]/s.exec(definition)?.[1]
  if (list === undefined) return []
  return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, label = '']) => label.replaceAll("''", "'"))
}
