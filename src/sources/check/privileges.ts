import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { query, quoteName, type Db } from '../db.ts'
import { listConditions, listReferences, type SqlReference } from '../expression.ts'
import type { Grant, ProblemList } from '../problems.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { permittedSql, APPLIES } from '../row-security.ts'

/** What the mapping uses, and where. */
interface Use extends SqlReference {
  readonly place: string
  readonly privilege: Grant['privilege']
}

const PRIVILEGES = { column: 'SELECT', table: 'SELECT', sequence: 'USAGE', function: 'EXECUTE' } as const

/**
 * Reports every privilege that this role lacks for a source, each with its grant: on the table and its columns, and on the
 * tables, functions and sequences that expressions name. Read from the catalogue, because a statement that fails for one
 * privilege hides the next.
 */
export async function checkPrivileges(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  keyNames: readonly string[],
  cells: { readonly outputs: readonly MappedCell[]; readonly touches: readonly MappedCell[] },
  report: ProblemList,
): Promise<void> {
  const { schema, name } = table
  const toColumnUse =
    (privilege: Grant['privilege']) =>
    ([place, column]: readonly [place: string, column: string]): Use => ({
      kind: 'column',
      schema: null,
      name: column,
      place,
      privilege,
    })
  const written = [
    ...cells.outputs.map((cell) => [`outputs.${cell.column}`, cell.attribute] as const),
    ...cells.touches.map((cell) => [`touch.${cell.column}`, cell.attribute] as const),
  ]
  const uses: Use[] = [
    { kind: 'table', schema, name, place: 'table', privilege: 'SELECT' },
    ...[...keyNames.map((key) => ['key', key] as const), ...written].map(toColumnUse('SELECT')),
    ...listExpressions(mapping).flatMap(([place, text]) =>
      listReferences(text).map((found): Use => ({ ...found, place, privilege: PRIVILEGES[found.kind] })),
    ),
    ...written.map(toColumnUse('UPDATE')),
  ]
  const missing = await query<Omit<Grant, 'columns'> & { readonly place: string; readonly column: string }>(
    db,
    MISSING,
    [JSON.stringify(uses.map((use, at) => ({ ...use, at }))), schema, name],
  )
  for (const { place, column, ...grant } of missing)
    report.addGrant(place, { ...grant, columns: column === null ? null : [column] })
}

const MISSING = `
  with uses as (
    select * from jsonb_to_recordset($1::jsonb) as u(kind text, schema text, name text, place text, privilege text, at int)
  ), found as (
    select u.place, u.at, u.privilege, null as "column", n.oid as schema_oid, quote_ident(n.nspname) as schema,
           case u.kind when 'sequence' then 'SEQUENCE ' else '' end || quote_ident(n.nspname) || '.' || quote_ident(c.relname) as "on",
           case u.kind when 'sequence' then has_sequence_privilege(c.oid, 'usage')
                       else has_any_column_privilege(c.oid, 'select') end as may
      from uses u join pg_class c on c.relname = u.name join pg_namespace n on n.oid = c.relnamespace
     where case when u.schema is null then pg_table_is_visible(c.oid) else n.nspname = u.schema end
       and case when u.kind = 'table' then c.relkind in ('r', 'p', 'v', 'm', 'f') when u.kind = 'sequence' then c.relkind = 'S' else false end
    union all
    select u.place, u.at, u.privilege, quote_ident(a.attname), n.oid, quote_ident(n.nspname), quote_ident(n.nspname) || '.' || quote_ident(c.relname),
           has_column_privilege(c.oid, a.attnum, u.privilege)
             -- Of a table that the role may not read at all, SELECT is missing as a whole.
             or u.privilege = 'SELECT' and not has_any_column_privilege(c.oid, 'select')
      from uses u join pg_attribute a on a.attname = u.name and a.attnum > 0 join pg_class c on c.oid = a.attrelid
      join pg_namespace n on n.oid = c.relnamespace
     where u.kind = 'column' and n.nspname = $2 and c.relname = $3
    union all
    select u.place, u.at, u.privilege, null, n.oid, quote_ident(n.nspname),
           'FUNCTION ' || quote_ident(n.nspname) || '.' || quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')',
           -- Of several functions of this name, one may be enough.
           bool_or(has_function_privilege(p.oid, 'execute')) over (partition by u.place, u.name, u.schema)
      from uses u join pg_proc p on p.proname = u.name join pg_namespace n on n.oid = p.pronamespace
     where u.kind = 'function' and case when u.schema is null then pg_function_is_visible(p.oid) else n.nspname = u.schema end
  )
  select (array_agg(place order by at))[1] as place, "on", privilege, "column", quote_ident(current_user) as role
    from (select place, at, 'SCHEMA ' || schema as "on", 'USAGE' as privilege, null as "column"
            from found where not has_schema_privilege(schema_oid, 'usage')
           union all select place, at, "on", privilege, "column" from found where not may) as missing
   group by "on", privilege, "column" order by min(at)`

/** The SQL texts of a mapping, each with its place. */
export function listExpressions(mapping: SourceMapping): (readonly [place: string, text: string])[] {
  const { joins, inputs, outputs, touch } = mapping
  const all: (readonly [string, string | null | undefined])[] = [
    ['joins', joins],
    ...listConditions(mapping),
    ...Object.entries(inputs).map(([name, text]) => [`inputs.${name}`, text] as const),
    ...outputs.map(({ column, sql }) => [`outputs.${column}.sql`, sql] as const),
    ...Object.entries(touch).map(([column, text]) => [`touch.${column}`, text] as const),
  ]
  return all.filter((entry): entry is readonly [string, string] => typeof entry[1] === 'string')
}

/**
 * Which versions the catalogue holds of what each source reads: its tables, columns, keys, policies and privileges. One statement
 * for all sources, so that a change is noticed within seconds even where no row of a source is read.
 * @returns by name; a text that changes with any of that, and with no row of a table
 */
export async function readFingerprints(
  db: Db,
  sources: readonly Source[],
): Promise<ReadonlyMap<string, string>> {
  const uses = sources.flatMap(({ name, table, mapping }) =>
    [...new Set([table.sql, ...listTables(listExpressions(mapping))])].map((sql) => ({ source: name, sql })),
  )
  const rows = await query<{ source: string; print: string }>(
    db,
    `select u.source, md5(string_agg(concat_ws(' ', u.sql, c.oid, c.xmin, n.xmin, has_schema_privilege(n.oid, 'usage'),
              has_any_column_privilege(c.oid, 'select'), has_any_column_privilege(c.oid, 'update'), row_security_active(c.oid),
              (select string_agg(concat_ws(' ', id, version), ',' order by id, version::text) from (
                 select attnum::oid, xmin from pg_attribute where attrelid = c.oid and attnum > 0 union all
                 select indexrelid, xmin from pg_index where indrelid = c.oid and indisunique union all
                 select oid, xmin from pg_policy where polrelid = c.oid) as parts (id, version))),
            ' | ' order by u.sql)) as print
       from jsonb_to_recordset($1::jsonb) as u(source text, sql text)
       left join pg_class c on c.oid = to_regclass(u.sql)
       left join pg_namespace n on n.oid = c.relnamespace
      group by u.source`,
    [JSON.stringify(uses)],
  )
  return new Map(rows.map(({ source, print }) => [source, print]))
}

const listTables = (expressions: readonly (readonly [place: string, text: string])[]): string[] =>
  expressions.flatMap(([, text]) =>
    listReferences(text)
      .filter(({ kind }) => kind === 'table')
      .map(({ schema, name }) => [...(schema === null ? [] : [schema]), name].map(quoteName).join('.')),
  )

interface SecuredTable {
  readonly oid: string
  readonly place: string
  readonly table: string
  readonly role: string
  readonly isSource: boolean
  /** The rows that this role may read, as a condition; null: none. */
  readonly readable: string | null
  readonly updatable: string | null
  readonly readPolicy: string
  readonly updatePolicy: string
}

/**
 * Reports tables of a source whose row-level security lets this role read no row, or update none: all of them would look like
 * a table without rows, or like rows that other transactions have locked.
 */
export async function checkRowSecurity(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  report: ProblemList,
): Promise<void> {
  const read = listExpressions(mapping).flatMap(([place, text]) =>
    listReferences(text)
      .filter(({ kind }) => kind === 'table')
      .map(({ schema, name }) => ({ place, schema, name, isSource: false })),
  )
  const uses = [{ place: 'table', schema: table.schema, name: table.name, isSource: true }, ...read]
  const secured = await query<SecuredTable>(
    db,
    `with uses as (
       select * from jsonb_to_recordset($1::jsonb) as u(place text, schema text, name text, "isSource" boolean)
     )
     select distinct on (c.oid) c.oid::text, u.place, u."isSource", quote_ident(n.nspname) || '.' || quote_ident(c.relname) as "table",
            quote_ident(current_user) as role, ${permittedSql('r')} as readable, ${permittedSql('w')} as updatable,
            quote_ident(current_user || '_select') as "readPolicy", quote_ident(current_user || '_update') as "updatePolicy"
       from uses u join pg_class c on c.relname = u.name join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and c.relrowsecurity and row_security_active(c.oid)
        and case when u.schema is null then pg_table_is_visible(c.oid) else n.nspname = u.schema end
      order by c.oid, u."isSource" desc, u.place`,
    [JSON.stringify(uses)],
  )
  for (const { place, table: on, role, isSource, readable, updatable, ...policies } of secured) {
    if (readable === null)
      report.addGrant(place, { on, policy: policies.readPolicy, command: 'SELECT', using: 'true', role })
    if (isSource && updatable === null)
      report.addGrant(place, {
        on,
        policy: policies.updatePolicy,
        command: 'UPDATE',
        using: readable ?? 'true',
        role,
      })
  }
  if (secured.length > 0) await checkPolicyPrivileges(db, secured, report)
}

/**
 * Reports what the policies read or call and this role may not: policies run with the rights of the role that reads the table,
 * those for PUBLIC too, and the error of Postgres names neither the policy nor its table.
 * @param secured tables whose row-level security is active for this role
 */
export async function checkPolicyPrivileges(
  db: Db,
  secured: readonly { readonly oid: string; readonly place: string; readonly isSource: boolean }[],
  report: ProblemList,
): Promise<void> {
  const lacking = await query<Grant & { readonly secured: string }>(
    db,
    `with recursive policies as (
       select p.oid, p.polrelid, p.polrelid as secured from pg_policy p
        where p.polrelid = any ($1::oid[]) and (p.polcmd in ('*', 'r') or p.polcmd = 'w' and p.polrelid = any ($2::oid[])) and ${APPLIES}
       union
       select p.oid, p.polrelid, r.secured
         from policies r join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
         join pg_policy p on p.polrelid = d.refobjid
        where row_security_active(p.polrelid) and p.polcmd in ('*', 'r') and ${APPLIES}
     ), used as (
       select p.secured, d.refclassid, d.refobjid, d.refobjsubid
         from policies p join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid
        -- The columns of its own table need no privilege.
        where d.refobjid <> p.polrelid
     )
     select secured::text, "on", privilege, array_agg(distinct "column") filter (where "column" is not null) as columns,
            quote_ident(current_user) as role
       from (
         select u.*, quote_ident(n.nspname) || '.' || quote_ident(c.relname) as "on", 'SELECT' as privilege, quote_ident(a.attname) as "column"
           from used u join pg_class c on u.refclassid = 'pg_class'::regclass and c.oid = u.refobjid and c.relkind in ('r', 'p', 'v', 'm', 'f')
           join pg_namespace n on n.oid = c.relnamespace
           left join pg_attribute a on a.attrelid = c.oid and a.attnum = u.refobjsubid and a.attnum > 0
          where not case when a.attnum is null then has_any_column_privilege(c.oid, 'select') else has_column_privilege(c.oid, a.attnum, 'select') end
         union all
         select u.*, 'FUNCTION ' || quote_ident(n.nspname) || '.' || quote_ident(f.proname) || '(' || pg_get_function_identity_arguments(f.oid) || ')', 'EXECUTE', null
           from used u join pg_proc f on u.refclassid = 'pg_proc'::regclass and f.oid = u.refobjid
           join pg_namespace n on n.oid = f.pronamespace
          where not has_function_privilege(f.oid, 'execute')
       ) as lacking
      group by 1, 2, 3 order by 2`,
    [secured.map(({ oid }) => oid), secured.flatMap(({ oid, isSource }) => (isSource ? [oid] : []))],
  )
  for (const { secured: oid, ...grant } of lacking)
    report.addGrant(secured.find((table) => table.oid === oid)?.place ?? 'table', grant)
}
