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

/** Sessions that hold a lock on a table of the schema, oldest transaction first. */
export async function findLockHolders(db: Database): Promise<string[]> {
  const { rows } = await sql<{ pid: number; name: string; role: string; seconds: number; tables: string[] }>`
    select a.pid, coalesce(nullif(a.application_name, ''), 'unnamed') as name, coalesce(a.usename, '') as role,
           coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::int as seconds,
           array_agg(distinct c.relname::text) as tables
      from pg_locks l join pg_stat_activity a on a.pid = l.pid join pg_class c on c.oid = l.relation
     where l.granted and c.relnamespace = to_regnamespace('fillrate') and l.pid <> pg_backend_pid()
       and l.database = (select oid from pg_database where datname = current_database())
     group by a.pid, a.application_name, a.usename, a.xact_start
     order by a.xact_start nulls last limit 3`.execute(db)
  return rows.map(
    ({ pid, name, role, seconds, tables }) =>
      `process ${pid} of Postgres (${name}, role ${role}, in a transaction for ${seconds} s: ${tables.join(', ')})`,
  )
}
