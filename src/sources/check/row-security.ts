import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { query, type Db } from '../db.ts'
import type { ProblemList, Grant } from '../problems.ts'
import { permittedSql, APPLIES } from '../row-security.ts'
import { listExpressions } from './privileges.ts'
import { listReferences } from '../expression.ts'

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
    report.addGrant(secured.find((one) => one.oid === oid)?.place ?? 'table', grant)
}
