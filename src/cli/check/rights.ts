import { sql } from 'kysely'
import type { Problem } from '../../config/problems.ts'
import type { Database } from '../../store/open.ts'

/** What this role may not do in the schema `fillrate`, where another has made it; null where nothing is missing. */
export async function missingRights(db: Database): Promise<Problem | null> {
  const { rows } = await sql<{ table: string; role: string }>`
    select c.relname as "table", quote_ident(current_user) as role
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'fillrate' and c.relkind in ('r', 'p') and c.relname not like 'migrations%'
       and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
                and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
     order by 1`.execute(db)
  const [first] = rows
  if (first === undefined) return null
  return {
    place: 'the schema "fillrate"',
    found: `this role may not read and write ${rows.map((row) => row.table).join(', ')}`,
    expected: 'a role that may: all of a run is kept there',
    todo: `grant select, insert, update, delete on all tables in schema fillrate to ${first.role}`,
  }
}
