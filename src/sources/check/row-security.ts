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
