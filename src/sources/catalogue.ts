import { splitName } from '../util/text.ts'
import { query, parseTableName, quoteName, type Db } from './db.ts'

/** What a column can hold, from the catalogue; domains are resolved to their base type. */
export type Fit =
  /** The length is in characters. */
  | { readonly kind: 'text'; readonly maxLength: number | null }
  | { readonly kind: 'integer'; readonly bits: 16 | 32 | 64 }
  | { readonly kind: 'float'; readonly bits: 32 | 64 }
  | { readonly kind: 'numeric'; readonly precision: number | null; readonly scale: number }
  | { readonly kind: 'boolean' | 'date' | 'timestamp' | 'timestamptz' | 'uuid' | 'json' | 'jsonb' }
  | { readonly kind: 'enum'; readonly labels: readonly string[] }
  | { readonly kind: 'array'; readonly element: Fit }
  /** An unknown type: values go as text, and the database checks them. */
  | { readonly kind: 'other' }

export interface ColumnType {
  /** As `format_type` writes it: `character varying(80)`, `crm.stage`. */
  readonly name: string
  /**
   * The type to cast a value to: the base type of domains. Without the length for text and bits, which an explicit cast
   * truncates or pads silently.
   */
  readonly cast: string
  readonly isDomain: boolean
  readonly fit: Fit
}

/** A base type as pg_type and pg_attribute describe it. */
interface RawType {
  readonly typname: string
  readonly typtype: string
  readonly typmod: number
  readonly labels: readonly string[]
  readonly element: Omit<RawType, 'element' | 'typmod'> | null
}

/** Parses what a type can hold. The meaning of `typmod` is from Postgres's utils/adt (varchar.c, numeric.c). */
function parseFit(type: RawType): Fit {
  if (type.element)
    return { kind: 'array', element: parseFit({ ...type.element, typmod: type.typmod, element: null }) }
  if (type.typtype === 'e') return { kind: 'enum', labels: type.labels }
  switch (type.typname) {
    case 'text':
    case 'citext':
    case 'name':
    case 'char':
      return { kind: 'text', maxLength: null }
    case 'varchar':
    case 'bpchar':
      return { kind: 'text', maxLength: type.typmod < 4 ? null : type.typmod - 4 }
    case 'int2':
      return { kind: 'integer', bits: 16 }
    case 'int4':
      return { kind: 'integer', bits: 32 }
    case 'int8':
      return { kind: 'integer', bits: 64 }
    case 'float4':
      return { kind: 'float', bits: 32 }
    case 'float8':
      return { kind: 'float', bits: 64 }
    case 'numeric':
      return parseNumericFit(type.typmod)
    case 'bool':
      return { kind: 'boolean' }
    case 'date':
    case 'timestamp':
    case 'timestamptz':
    case 'uuid':
    case 'json':
    case 'jsonb':
      return { kind: type.typname }
    default:
      return { kind: 'other' }
  }
}

/** The scale is an 11-bit signed number since Postgres 15, and a small positive one before. */
function parseNumericFit(typmod: number): Fit {
  if (typmod < 4) return { kind: 'numeric', precision: null, scale: 0 }
  const packed = typmod - 4
  return { kind: 'numeric', precision: (packed >> 16) & 0xffff, scale: ((packed & 0x7ff) ^ 1024) - 1024 }
}

/** Whether the type is text, whose explicit cast must not carry a length. */
const isTextFit = (fit: Fit): boolean =>
  fit.kind === 'text' || (fit.kind === 'array' && isTextFit(fit.element))

export interface Column {
  readonly name: string
  readonly type: ColumnType
  readonly notNull: boolean
  /** `generated always as (…) stored` or virtual. */
  readonly isGenerated: boolean
  /** Of an identity column, `always` or `by default`. */
  readonly isIdentity: boolean
  readonly canSelect: boolean
  readonly canUpdate: boolean
}

/** SQL for the operators of one index column, with their schema: `operator(pg_catalog.=)`. */
export interface KeyOperators {
  readonly less: string
  readonly atMost: string
  readonly equal: string
  readonly atLeast: string
  readonly greater: string
}

type TableKind = 'table' | 'view' | 'materialized view' | 'foreign table'

export interface Table {
  readonly schema: string
  readonly name: string
  /** Qualified and quoted. */
  readonly sql: string
  readonly kind: TableKind
  readonly columns: readonly Column[]
  /** Columns of the primary key, in its own order; empty if there is none. */
  readonly primaryKey: readonly string[]
  /** Columns of each complete, valid unique index, the primary key's included, in the index's order. */
  readonly uniqueKeys: ReadonlyArray<readonly string[]>
  /** For each of `uniqueKeys`, the operators that order and look up its columns. */
  readonly keyOperators: ReadonlyArray<readonly KeyOperators[]>
  /** Some constraint of the database, perhaps of a table that a trigger writes, is checked only at commit by default. */
  readonly hasDeferred: boolean
  /** The user's triggers may change a row again after its update, which RETURNING does not show. */
  readonly hasAfterTriggers: boolean
  /** The user's triggers may change other columns of a row with its update. */
  readonly hasUpdateTriggers: boolean
  /** Its name without the schema means this table. */
  readonly isVisible: boolean
  /** Tables other than partitions that inherit from it: a unique key holds in each of them alone. */
  readonly inheritors: readonly string[]
  /** Rules that rewrite updates of it. */
  readonly updateRules: readonly string[]
  readonly isPartitioned: boolean
  /** The database's encoding: `UTF8`. */
  readonly encoding: string
  /** The role's own search path, where Fillrate leaves schemas out of it; otherwise null. */
  readonly rolePath: RolePath | null
}

/** Search paths, as the setting is written. */
interface RolePath {
  readonly own: string
  /** Without the schemas in which other roles may create. */
  readonly held: string
}

/** A table, view or similar as it is now, or null. A name without a schema is resolved by the search path. */
export async function readTable(db: Db, name: string): Promise<Table | null> {
  const { schema, table } = parseTableName(name)
  const [found = null] = await readWhere(db, NAMED, [schema, table])
  return found
}

/** Several tables as they are now, in no order, without dropped ones. The names are those of a `regclass`. */
export const readTables = (db: Db, names: readonly string[]): Promise<readonly Table[]> =>
  readWhere(db, 'c.oid in (select to_regclass(name) from unnest($1::text[]) as name)', [names])

async function readWhere(
  db: Db,
  condition: string,
  parameters: readonly unknown[],
): Promise<readonly Table[]> {
  const tables = await query<FoundTable>(db, `${tableQuery} where ${condition}`, parameters)
  if (tables.length === 0) return []
  const columns = await query<FoundColumn>(db, columnsQuery, [tables.map(({ oid }) => oid)])
  const byTable = Map.groupBy(columns, ({ table }) => table)
  return tables.map(({ oid, relkind, ownPath, heldPath, keys, ...properties }) => ({
    ...properties,
    sql: `${quoteName(properties.schema)}.${quoteName(properties.name)}`,
    kind: kinds[relkind] ?? 'table',
    columns: (byTable.get(oid) ?? []).map(toColumn),
    primaryKey: keys.find((key) => key.primary)?.columns ?? [],
    uniqueKeys: keys.map((key) => key.columns),
    keyOperators: keys.map((key) => key.operators.map(toOperators)),
    isPartitioned: relkind === 'p',
    rolePath: ownPath === null ? null : { own: ownPath, held: heldPath },
  }))
}

/** The column that a configured name means, and the keys inside it. A column whose own name has a dot comes first. */
export function findColumn(
  { columns }: Pick<Table, 'columns'>,
  name: string,
): { readonly column: Column | undefined; readonly path: readonly string[] } {
  const whole = columns.find((column) => column.name === name)
  if (whole !== undefined) return { column: whole, path: [] }
  const [first, ...path] = splitName(name)
  return { column: columns.find((column) => column.name === first), path }
}

/** As the query gives it: its columns have the names of the properties. */
type FoundTable = Pick<
  Table,
  | 'schema'
  | 'name'
  | 'hasDeferred'
  | 'hasAfterTriggers'
  | 'hasUpdateTriggers'
  | 'isVisible'
  | 'inheritors'
  | 'updateRules'
  | 'encoding'
> & {
  readonly oid: number
  readonly relkind: string
  readonly ownPath: string | null
  readonly heldPath: string
  readonly keys: ReadonlyArray<{
    readonly primary: boolean
    readonly columns: readonly string[]
    readonly operators: readonly FoundOperators[]
  }>
}

/** By btree strategy: 1 is `<`, 2 is `<=`, 3 is `=`, 4 is `>=`, 5 is `>`. */
type FoundOperators = Readonly<
  Partial<Record<'1' | '2' | '3' | '4' | '5', readonly [schema: string, name: string]>>
>

function toOperators(found: FoundOperators): KeyOperators {
  const operator = (strategy: keyof FoundOperators, name: string): string => {
    const [schema, own] = found[strategy] ?? []
    return schema === undefined ? name : `operator(${quoteName(schema)}.${own})`
  }
  return {
    less: operator('1', '<'),
    atMost: operator('2', '<='),
    equal: operator('3', '='),
    atLeast: operator('4', '>='),
    greater: operator('5', '>'),
  }
}

interface FoundColumn extends RawType, Omit<Column, 'type'> {
  readonly table: number
  readonly typeName: string
  readonly isDomain: boolean
  readonly castName: string
  readonly castWithLength: string
}

const kinds: Readonly<Record<string, TableKind>> = { v: 'view', m: 'materialized view', f: 'foreign table' }

const hasTriggers = (which: string): string => `
         exists (select from pg_trigger g
                  where g.tgrelid in (select c.oid union all select p.relid from pg_partition_tree(c.oid) p)
                    and not g.tgisinternal and g.tgenabled <> 'D' and ${which}
                    and g.tgname not like 'fillrate\\_follow\\_%')`

const tableQuery = `
  select c.oid::bigint as oid, n.nspname as schema, c.relname as name, c.relkind::text as relkind, getdatabaseencoding() as encoding,
         pg_table_is_visible(c.oid) as "isVisible", current_setting('search_path') as "heldPath",
         (select string_agg(quote_ident(p.name), ', ' order by p.place)
            from unnest(nullif(current_setting('fillrate.own_search_path', true), '')::text[]) with ordinality as p(name, place)) as "ownPath",
         exists (select from pg_constraint k where k.condeferred) as "hasDeferred",
         -- Of tgtype, 2 is BEFORE, 16 UPDATE and 64 INSTEAD OF. Foreign keys have internal triggers, which write
         -- other tables; Fillrate's own triggers only record keys.
         ${hasTriggers('g.tgtype & 82 = 16')} as "hasAfterTriggers", ${hasTriggers('g.tgtype & 80 = 16')} as "hasUpdateTriggers",
         array(select i.oid::regclass::text from pg_inherits h join pg_class i on i.oid = h.inhrelid
                where h.inhparent = c.oid and not i.relispartition order by 1) as inheritors,
         array(select w.rulename::text from pg_rewrite w
                where w.ev_class = c.oid and w.ev_type = '2' and w.ev_enabled in ('O', 'A') order by 1) as "updateRules",
         coalesce((
           select jsonb_agg(jsonb_build_object('primary', i.indisprimary, 'columns', (
                    select jsonb_agg(a.attname order by k.place)
                      from unnest(i.indkey::int2[]) with ordinality as k(attnum, place)
                      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                     where k.place <= i.indnkeyatts), 'operators', (
                    select jsonb_agg(coalesce((
                             select jsonb_object_agg(o.amopstrategy, jsonb_build_array(s.nspname, p.oprname))
                               from pg_opclass f
                               join pg_amop o on o.amopfamily = f.opcfamily and o.amoplefttype = f.opcintype
                                             and o.amoprighttype = f.opcintype and o.amopstrategy between 1 and 5
                               join pg_operator p on p.oid = o.amopopr join pg_namespace s on s.oid = p.oprnamespace
                              where f.oid = k.class), '{}') order by k.place)
                      from unnest(i.indclass::oid[]) with ordinality as k(class, place)
                     where k.place <= i.indnkeyatts)) order by i.indisprimary desc, i.indexrelid)
             from pg_index i
            where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
         ), '[]') as keys
    from pg_class c join pg_namespace n on n.oid = c.relnamespace`

const NAMED = `c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f')
     and case when $1::text is not null then n.nspname = $1
              when current_setting('fillrate.own_search_path', true) <> ''
                then n.nspname = any (current_setting('fillrate.own_search_path')::name[])
              else pg_table_is_visible(c.oid) end
   order by array_position(nullif(current_setting('fillrate.own_search_path', true), '')::name[], n.nspname)
   limit 1`

const qualified = (type: string): string =>
  `(case when ${type}.nspname = 'pg_catalog' then null
         else quote_ident(${type}.nspname) || '.' || quote_ident(${type}.typname) end)`

const labels = (oid: string): string =>
  `array(select l.enumlabel::text from pg_enum l where l.enumtypid = ${oid} order by l.enumsortorder)`

const columnsQuery = `
  with recursive under as (
    select a.attrelid, a.attnum, a.atttypid as oid, a.atttypmod as typmod, 0 as depth
      from pg_attribute a where a.attrelid = any ($1::oid[]) and a.attnum > 0 and not a.attisdropped
     union all
    select u.attrelid, u.attnum, t.typbasetype, case when t.typtypmod = -1 then u.typmod else t.typtypmod end, u.depth + 1
      from under u join pg_type t on t.oid = u.oid and t.typtype = 'd'
  ), base as (
    select distinct on (attrelid, attnum) * from under order by attrelid, attnum, depth desc
  ), types as (
    select t.*, n.nspname from pg_type t join pg_namespace n on n.oid = t.typnamespace
  )
  select a.attrelid::bigint as "table", a.attname as name, a.attnotnull as "notNull", a.attgenerated <> '' as "isGenerated",
         a.attidentity <> '' as "isIdentity",
         has_column_privilege(a.attrelid, a.attnum, 'select') as "canSelect",
         has_column_privilege(a.attrelid, a.attnum, 'update') as "canUpdate",
         format_type(a.atttypid, a.atttypmod) as "typeName", b.depth > 0 as "isDomain",
         coalesce(${qualified('t')}, format_type(b.oid, -1)) as "castName",
         coalesce(${qualified('t')}, format_type(b.oid, b.typmod)) as "castWithLength",
         t.typname, t.typtype::text as typtype, b.typmod, ${labels('t.oid')} as labels,
         case when e.oid is not null then
           jsonb_build_object('typname', e.typname, 'typtype', e.typtype, 'labels', ${labels('e.oid')}) end as element
    from base b
    join pg_attribute a on a.attrelid = b.attrelid and a.attnum = b.attnum
    join types t on t.oid = b.oid
    left join types e on e.oid = t.typelem and t.typcategory = 'A'
   order by a.attrelid, a.attnum`

function toColumn(found: FoundColumn): Column {
  const { name, typeName, isDomain, notNull, isGenerated, isIdentity, canSelect, canUpdate } = found
  const fit = parseFit(found)
  const isPlain = isTextFit(fit) || /^_?(?:var)?bit$/.test(found.typname)
  const cast = isPlain ? found.castName : found.castWithLength
  const type = { name: typeName, cast, isDomain, fit }
  return { name, type, notNull, isGenerated, isIdentity, canSelect, canUpdate }
}
