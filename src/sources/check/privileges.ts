import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { type Db, query } from '../db.ts'
import { listConditions } from '../expression.ts'
import type { Grant } from '../grants.ts'
import type { ProblemList } from '../problems.ts'
import type { MappedCell } from '../source-model.ts'
import { listReferences, type SqlReference } from './references.ts'

/** A name that the mapping uses, and where. */
type Use = SqlReference & { readonly place: string }

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
  const written: Use[] = [
    ...cells.outputs.map((cell) => toColumnUse(`outputs.${cell.column}`, cell.attribute)),
    ...cells.touches.map((cell) => toColumnUse(`touch.${cell.column}`, cell.attribute)),
  ]
  const uses = listExpressions(mapping).flatMap(([place, text]) =>
    listReferences(text).map((reference): Use => ({ ...reference, place })),
  )
  const read = [
    ...keyNames.map((name) => toColumnUse('key', name)),
    ...written,
    ...uses.filter(({ kind }) => kind === 'column'),
  ]
  await checkTable(db, table, read, written, report)
  const others = uses.filter(({ kind }) => kind !== 'column')
  if (others.length > 0) await checkOthers(db, others, report)
}

const toColumnUse = (place: string, name: string): Use => ({ kind: 'column', schema: null, name, place })

export function listExpressions(mapping: SourceMapping): (readonly [place: string, text: string])[] {
  const { joins, changedAt, freshness, inputs, outputs, touch } = mapping
  const all: (readonly [string, string | null | undefined])[] = [
    ['joins', joins],
    ...listConditions(mapping),
    ['changedAt', changedAt],
    ['freshness.read', freshness?.read],
    ...Object.entries(inputs).map(([name, text]) => [`inputs.${name}`, text] as const),
    ...outputs.map(({ column, sql }) => [`outputs.${column}.sql`, sql] as const),
    ...Object.entries(touch).map(([column, text]) => [`touch.${column}`, text] as const),
  ]
  return all.filter((one): one is readonly [string, string] => typeof one[1] === 'string')
}

async function checkTable(
  db: Db,
  table: Table,
  read: readonly Use[],
  written: readonly Use[],
  report: ProblemList,
): Promise<void> {
  const [names] = await query<{
    role: string
    schema: string
    table: string
    usesSchema: boolean
    readsAny: boolean
    columns: Readonly<Record<string, string>>
  }>(
    db,
    `select quote_ident(current_user) as role, quote_ident(n.nspname) as schema,
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) as "table",
            has_schema_privilege(n.oid, 'usage') as "usesSchema",
            has_any_column_privilege(c.oid, 'select') as "readsAny",
            (select jsonb_object_agg(a.attname, quote_ident(a.attname)) from pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1 and c.relname = $2`,
    [table.schema, table.name],
  )
  if (names === undefined) return
  const { role } = names
  const lacks = (place: string, what: string, grant: Omit<Grant, 'role'>): void =>
    report.addGrant(place, `${what}, which the role ${role} may not ${describePrivilege(grant)}`, {
      ...grant,
      role,
    })
  if (!names.usesSchema)
    lacks('table', `the schema ${names.schema}`, {
      on: `SCHEMA ${names.schema}`,
      privilege: 'USAGE',
      columns: null,
    })
  const columnOf = (name: string) => table.columns.find((column) => column.name === name)
  const nameOf = (name: string): string => names.columns[name] ?? name
  if (!names.readsAny) lacks('table', names.table, { on: names.table, privilege: 'SELECT', columns: null })
  else
    for (const { place, name } of read)
      if (columnOf(name)?.canSelect === false)
        lacks(place, `'${name}'`, { on: names.table, privilege: 'SELECT', columns: [nameOf(name)] })
  for (const { place, name } of written)
    if (columnOf(name)?.canUpdate === false)
      lacks(place, `'${name}'`, { on: names.table, privilege: 'UPDATE', columns: [nameOf(name)] })
}

const describePrivilege = ({ privilege }: Pick<Grant, 'privilege'>): string =>
  ({
    USAGE: 'use',
    SELECT: 'read',
    UPDATE: 'update',
    EXECUTE: 'execute',
    INSERT: 'insert into',
    DELETE: 'delete from',
    CREATE: 'create in',
  })[privilege]

/** Tables that may not be read, functions that may not be executed, sequences that may not be used. */
async function checkOthers(db: Db, uses: readonly Use[], report: ProblemList): Promise<void> {
  const missing = await query<Grant & { readonly place: string }>(
    db,
    `with uses as (
       select distinct * from jsonb_to_recordset($1::jsonb) as u(kind text, schema text, name text, place text)
     ), found as (
       select u.place, u.kind, n.oid as schema_oid, quote_ident(n.nspname) as schema,
              case u.kind when 'table' then '' else 'SEQUENCE ' end || quote_ident(n.nspname) || '.' || quote_ident(c.relname) as "on",
              case u.kind when 'table' then has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select')
                          else has_sequence_privilege(c.oid, 'usage') end as may
         from uses u join pg_class c on c.relname = u.name join pg_namespace n on n.oid = c.relnamespace
        where case when u.schema is null then pg_table_is_visible(c.oid) else n.nspname = u.schema end
          and case u.kind when 'table' then c.relkind in ('r', 'p', 'v', 'm', 'f') when 'sequence' then c.relkind = 'S' else false end
       union all
       select u.place, u.kind, n.oid, quote_ident(n.nspname), 'FUNCTION ' || quote_ident(n.nspname) || '.' || quote_ident(p.proname)
                || '(' || pg_get_function_identity_arguments(p.oid) || ')',
              -- Of several functions of this name, one may be enough.
              bool_or(has_function_privilege(p.oid, 'execute')) over (partition by u.place, u.name, u.schema)
         from uses u join pg_proc p on p.proname = u.name join pg_namespace n on n.oid = p.pronamespace
        where u.kind = 'function' and case when u.schema is null then pg_function_is_visible(p.oid) else n.nspname = u.schema end
     )
     select distinct place, 'SCHEMA ' || schema as "on", 'USAGE' as privilege, quote_ident(current_user) as role
       from found where not has_schema_privilege(schema_oid, 'usage')
     union
     select place, "on", case kind when 'table' then 'SELECT' when 'sequence' then 'USAGE' else 'EXECUTE' end, quote_ident(current_user)
       from found where not may
      order by 1, 2`,
    [JSON.stringify(uses)],
  )
  for (const { place, on, privilege, role } of missing) {
    const what = on.replace(/^[A-Z]+ /, (kind) => `the ${kind.toLowerCase()}`)
    report.addGrant(place, `${what}, which the role ${role} may not ${describePrivilege({ privilege })}`, {
      on,
      privilege,
      columns: null,
      role,
    })
  }
}
