import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { type Db, query } from '../db.ts'
import type { ProblemList } from '../problems.ts'
import { permittedSql } from '../row-security.ts'
import { listExpressions } from './privileges.ts'
import { checkPolicyPrivileges } from './policy-privileges.ts'
import { listReferences } from './references.ts'

interface SecuredTable {
  readonly oid: string
  readonly place: string
  readonly table: string
  /** Of a table that belongs to another role than the source's table. */
  readonly otherOwner: string | null
  readonly role: string
  readonly isSource: boolean
  /** The session does not let row-level security filter: Postgres refuses each statement. */
  readonly isRefused: boolean
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
            case when c.relowner <> (select o.relowner from pg_class o join pg_namespace s on s.oid = o.relnamespace
                                      where s.nspname = $2 and o.relname = $3) then quote_ident(pg_get_userbyid(c.relowner)) end as "otherOwner",
            quote_ident(current_user) as role, not current_setting('row_security')::boolean as "isRefused",
            ${permittedSql('r')} as readable, ${permittedSql('w')} as updatable,
            quote_ident(current_user || '_select') as "readPolicy", quote_ident(current_user || '_update') as "updatePolicy"
       from uses u join pg_class c on c.relname = u.name join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and c.relrowsecurity and row_security_active(c.oid)
        and case when u.schema is null then pg_table_is_visible(c.oid) else n.nspname = u.schema end
      order by c.oid, u."isSource" desc, u.place`,
    [JSON.stringify(uses), table.schema, table.name],
  )
  for (const one of secured) reportTable(one, report)
  if (secured.length > 0) await checkPolicyPrivileges(db, secured, report)
}

function reportTable(
  {
    place,
    table,
    role,
    otherOwner,
    isSource,
    isRefused,
    readable,
    updatable,
    readPolicy,
    updatePolicy,
  }: SecuredTable,
  report: ProblemList,
): void {
  if (isRefused) {
    report.add(
      place,
      `${table} has row-level security, and row_security is off for the role ${role}: Postgres refuses its statements`,
      'a role whose statements the policies of the table filter, or one that bypasses them',
      `alter role ${role} reset row_security`,
    )
    return
  }
  const what = (verb: string): string =>
    `${table}, of which row-level security lets the role ${role} ${verb} no row`
  if (readable === null)
    report.addGrant(
      place,
      what('read'),
      { on: table, policy: readPolicy, command: 'SELECT', using: 'true', role },
      otherOwner === null
        ? undefined
        : `name a view of it, by a role that may read its rows: ${otherOwner} alone can create this policy`,
    )
  if (isSource && updatable === null)
    report.addGrant(place, what('update'), {
      on: table,
      policy: updatePolicy,
      command: 'UPDATE',
      using: readable ?? 'true',
      role,
    })
}
