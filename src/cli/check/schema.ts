import { sql } from 'kysely'
import { describeLack, type Grant, grantStatements } from '../../sources/grants.ts'
import { pendingMigrations } from '../../store/migrate.ts'
import { UnusableSchemaError } from '../../store/schema-errors.ts'
import type { Database } from '../../store/open.ts'
import { readOne } from '../../store/sql.ts'
import {
  type CheckedProblem,
  type Finding,
  createFailedFinding,
  createFinding,
  toFinding,
} from './finding.ts'

const PLACE = 'the schema "fillrate"'

/**
 * Checks Fillrate's own schema. Before the first `fillrate migrate` it is missing, which is only a warning, unless this role
 * may not create it.
 */
export async function checkSchema(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const schema = await readSchemaPrivileges(db)
    if (schema.tables === 0) return describeMissing(schema)
    const grants = findMissingGrants(schema)
    if (grants.length > 0)
      return fail(
        ...grants.map((grant) => grantProblem(grant, 'a role that may use it: all state is stored there')),
      )
    if (schema.secured.length > 0)
      return fail(
        ...schema.secured.map((table) => ({
          place: PLACE,
          found: `row-level security on fillrate.${table}, which hides its rows from the role ${schema.role}`,
          expected: 'tables without it: all state is stored there',
          todo: `alter table fillrate.${table} disable row level security`,
        })),
      )
    const pending = await pendingMigrations(db)
    if (pending.length === 0) return createFinding('schema', 'ok', 'up to date')
    return fail(otherSchemaProblem(`without ${pending.join(', ')}`, 'Run `fillrate migrate`.'))
  } catch (error) {
    if (!(error instanceof UnusableSchemaError)) return toFinding('schema', error, env)
    return fail(otherSchemaProblem(error.found, `${error.todo}.`))
  }
}

const fail = (...problems: readonly CheckedProblem[]): Finding => createFailedFinding('schema', ...problems)

const otherSchemaProblem = (found: string, todo: string): CheckedProblem => ({
  place: PLACE,
  found,
  expected: 'the schema of this version',
  todo,
})

interface SchemaPrivileges {
  readonly role: string
  readonly database: string
  readonly exists: boolean
  readonly mayUse: boolean
  /** In the schema, or if it is missing, on the database. */
  readonly mayCreate: boolean
  readonly tables: number
  /** Tables that this role may not read and write. */
  readonly closed: readonly string[]
  /** Tables whose row-level security holds for this role. */
  readonly secured: readonly string[]
}

/** Reads the catalogue, which is open to roles that may not use the schema. */
const readSchemaPrivileges = (db: Database): Promise<SchemaPrivileges> =>
  readOne(
    db,
    sql<SchemaPrivileges>`
    select quote_ident(current_user) as role, quote_ident(current_database()) as database, n.oid is not null as exists,
           coalesce(has_schema_privilege(n.oid, 'usage'), false) as "mayUse",
           coalesce(has_schema_privilege(n.oid, 'create'), has_database_privilege(current_database(), 'create')) as "mayCreate",
           (select count(*) from pg_class c where c.relnamespace = n.oid and c.relkind in ('r', 'p')) as tables,
           array(select c.relname::text from pg_class c
                  where c.relnamespace = n.oid and c.relkind in ('r', 'p')
                    and not (has_table_privilege(c.oid, 'select')
                             and (c.relname like 'migrations%'
                                  or has_table_privilege(c.oid, 'insert') and has_table_privilege(c.oid, 'update')
                                     and has_table_privilege(c.oid, 'delete')))
                  order by 1) as closed,
           array(select c.relname::text from pg_class c
                  where c.relnamespace = n.oid and c.relkind in ('r', 'p') and row_security_active(c.oid) order by 1) as secured
      from (select) as one left join pg_namespace n on n.nspname = 'fillrate'`,
  )

function describeMissing({ role, database, exists, mayUse, mayCreate }: SchemaPrivileges): Finding {
  if (mayCreate && (mayUse || !exists))
    return createFinding('schema', 'warning', 'not created yet', { todo: 'Run `fillrate migrate` first.' })
  const on = exists ? 'SCHEMA fillrate' : `DATABASE ${database}`
  const grants: Grant[] = [{ on, privilege: 'CREATE', columns: null, role }]
  if (exists && !mayUse) grants.unshift({ on, privilege: 'USAGE', columns: null, role })
  const advice = exists
    ? ''
    : `, or as an owner of the database: CREATE SCHEMA fillrate AUTHORIZATION ${role};`
  return createFinding('schema', 'error', `not created yet, and the role ${role} may not create it`, {
    todo: `Grant what is listed under privileges below${advice} Then run \`fillrate migrate\`.`,
    problems: grants.map((grant) => grantProblem(grant, 'a role that may create it')),
  })
}

function findMissingGrants({ role, mayUse, closed }: SchemaPrivileges): Grant[] {
  const usage: Grant = { on: 'SCHEMA fillrate', privilege: 'USAGE', columns: null, role }
  const all = (['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const).map((privilege): Grant => ({
    on: 'ALL TABLES IN SCHEMA fillrate',
    privilege,
    columns: null,
    role,
  }))
  return [...(mayUse ? [] : [usage]), ...(closed.length === 0 ? [] : all)]
}

const grantProblem = (grant: Grant, expected: string): CheckedProblem => ({
  place: PLACE,
  found: describeLack(grant),
  expected,
  todo: grantStatements([grant]).join(''),
  grant,
})
