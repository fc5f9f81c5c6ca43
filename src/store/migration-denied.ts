import { sql } from 'kysely'
import type { Database } from './open.ts'
import { MigrationDeniedError } from './schema-errors.ts'

/**
 * Explains why Postgres denied a migration to the role: the tables belong to another role, or the role lacks a privilege on
 * the schema. Null where neither is the reason.
 */
export async function explainDenial(db: Database, cause: Error): Promise<MigrationDeniedError | null> {
  const { rows } = await sql<SchemaRights>`
    select current_user as role, quote_ident(current_user) as quoted, pg_get_userbyid(n.nspowner) as owner,
           array(select p from unnest('{USAGE,CREATE}'::text[]) p where not has_schema_privilege(n.oid, p)) as missing,
           (select pg_get_userbyid(c.relowner) from pg_class c
             where c.relnamespace = n.oid and c.relname = 'runs' and not pg_has_role(c.relowner, 'usage')) as "tableOwner"
      from pg_namespace n where n.nspname = 'fillrate'`.execute(db)
  const [rights] = rows
  if (rights === undefined) return null
  const { role, quoted, owner, tableOwner } = rights
  if (tableOwner !== null) return MigrationDeniedError.notOwner(role, tableOwner, cause)
  if (rights.missing.length === 0) return null
  return MigrationDeniedError.lacks(rights.missing.join(', '), { role, quoted, owner }, cause)
}

interface SchemaRights {
  readonly role: string
  /** The role's name as SQL takes it. */
  readonly quoted: string
  readonly owner: string
  readonly missing: readonly string[]
  /** Null where there are no tables yet, or the role may act as their owner. */
  readonly tableOwner: string | null
}
