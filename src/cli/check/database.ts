import * as services from '../../store/services.ts'
import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { configuredAddress } from '../../pipeline/deps.ts'
import {
  describeLack,
  grantStatements,
  listRemedies,
  showFound,
  type Grant,
  type SourceProblem,
} from '../../sources/problems.ts'
import { openSource, NOT_REVIEWED } from '../../sources/source.ts'
import { pendingMigrations } from '../../store/migrate.ts'
import { openDatabase, type Database } from '../../store/open.ts'
import { UnusableSchemaError } from '../../store/schema-errors.ts'
import { readOne } from '../../store/sql.ts'
import { databaseAddress } from '../views/database-error.ts'
import {
  createFailedFinding,
  createFinding,
  createUnsetFinding,
  ofService,
  toFinding,
  type CheckedProblem,
  type Finding,
} from './finding.ts'
import type { Problem } from '../../config/problems.ts'
import { query, quoteLiteral, type Db } from '../../sources/db.ts'
import { eligibleSql, joinsSql } from '../../sources/inputs.ts'
import { resolveSteps } from '../../sources/open-sources.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import { pageQuery, type SourcePageOptions } from '../../sources/page.ts'
import { mayHideRows } from '../../sources/row-security.ts'
import type { Source } from '../../sources/source-model.ts'
import { readTriggerState } from '../../sources/triggers/install.ts'
import { inTransaction, tryWrite } from '../../store/transaction.ts'
import { pluralize } from '../../util/text.ts'
import { QUERY_CANCELED, sqlStateOf } from '../../util/error-text.ts'

interface DatabaseChecks {
  readonly environment: Environment
  /** Null: it is invalid. */
  readonly config: Config | null
  readonly sources: readonly SourceMapping[]
  readonly env: NodeJS.ProcessEnv
}

/** Checks the database, the schema "fillrate" and sources, and yields each finding as soon as it is known. */
export async function* checkDatabase(checks: DatabaseChecks): AsyncGenerator<Finding> {
  const { environment, sources, env } = checks
  const { databaseUrl: url } = environment
  const db = url === null ? null : openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (db !== null && connected.verdict === 'ok') return yield* checkConnected(db, checks)
    for (const name of ['schema', ...sources.map((source) => `source ${source.name}`)])
      yield createFinding(name, 'skipped', 'no database')
  } finally {
    await db?.destroy()
  }
}

async function connect(db: Database | null, env: NodeJS.ProcessEnv): Promise<Finding> {
  if (db === null) {
    const expected = 'the address of the CRM database, postgres://user:password@host:5432/name'
    return createUnsetFinding('database', 'DATABASE_URL', expected)
  }
  try {
    const { full } = await readOne(
      db,
      sql<{ full: string }>`select current_setting('server_version') as full`,
    )
    const [version] = full.split(' ')
    return createFinding('database', 'ok', `Postgres ${version}, ${databaseAddress(env['DATABASE_URL'])}`)
  } catch (error) {
    return toFinding('database', error, env)
  }
}

async function* checkConnected(
  db: Database,
  { environment, config, sources, env }: DatabaseChecks,
): AsyncGenerator<Finding> {
  const refused = describeRefusal(await tryWrite(db))
  if (refused !== null)
    yield createFailedFinding('writes', {
      place: 'DATABASE_URL',
      found: refused.title,
      expected: 'a Postgres that takes writes: all state is stored there',
      todo: refused.action,
    })
  const schema = await checkSchema(db, env)
  yield schema
  const problems = [...schema.problems]
  for (const mapping of sources) {
    const checked = await checkSource(db, mapping, env)
    problems.push(...checked.problems)
    yield checked
    if (mapping.follow && checked.verdict !== 'error' && schema.verdict !== 'error')
      yield schema.verdict === 'ok'
        ? await checkTriggers(db, await openSource(db, mapping))
        : createFinding(`follow ${mapping.name}`, 'warning', 'triggers not installed', {
            todo: `After \`fillrate migrate\`, run \`fillrate follow install ${mapping.name}\`.`,
          })
  }
  yield* summarizeGrants(problems)
  if (schema.verdict === 'ok') yield* checkScopes(db, environment, config)
}

/** The statements that give this role every privilege that it lacks, in one place to copy from. */
function* summarizeGrants(problems: readonly CheckedProblem[]): Generator<Finding> {
  const role = problems.find(({ grant }) => grant !== undefined)?.grant?.role
  if (role === undefined) return
  yield createFinding('privileges', 'error', `The role ${role} lacks some. Run as the owner:`, {
    todo: listRemedies(problems).join('\n'),
  })
}

/** Warns if the database holds results of other services only: lookups are billed again. */
async function* checkScopes(
  db: Database,
  environment: Environment,
  config: Config | null,
): AsyncGenerator<Finding> {
  const own = (config?.services ?? []).flatMap(({ name }) => {
    const address = config && configuredAddress(name, config, environment)
    return address === null ? [] : [{ name, address }]
  })
  const stored = (await services.listServices(db)).map(({ host }) => host)
  const other = stored.find((host) => !own.some(({ address }) => address === host))
  if (other === undefined) return
  for (const { name, address } of own.filter(({ address }) => !stored.includes(address))) {
    // A service that shares its host has its name after it, which it had not while it was the only one.
    const before = stored.find((host) => address === `${host}/${name}`) ?? other
    yield ofService(
      name,
      createFinding('scope', 'warning', `this database holds results of ${before}, and none of ${address}`, {
        todo: `Lookups are billed again. If only the host has changed: update fillrate.services set host = '${address}' where host = '${before}';`,
      }),
    )
  }
}

const PLACE = 'the schema "fillrate"'

/**
 * Checks Fillrate's own schema. Before the first `fillrate migrate` it is missing, which is only a
 * warning, unless this role may not create it.
 */
async function checkSchema(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
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

/** The timeout of queries on a source's table, in milliseconds: a person is waiting, and the table is in use. */
const CHECK_MS = 10_000

/**
 * Checks a source against the database: names, types, privileges and expressions, then its first rows. What can never
 * work is an error, and hides what is only worth a warning. Whether values fit their columns shows in a dry run.
 */
export async function checkSource(
  db: Database,
  mapping: SourceMapping,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  const name = `source ${mapping.name}`
  try {
    const { steps, problems } = await resolveSteps(db, { ...mapping, reviewed: true })
    const errors: Problem[] = [...problems]
    const warnings: Problem[] = []
    if (!mapping.reviewed) warnings.push({ place: `sources.${mapping.name}.reviewed`, ...NOT_REVIEWED })
    const [source] = steps
    if (source !== undefined && problems.length === 0) {
      const wrong = await findWrongRows(db, source)
      errors.push(...wrong.map((problem) => ({ ...problem, found: showFound(problem) })))
      if (wrong.length === 0)
        warnings.push(...(await inTransaction(db, (tx) => explainNoRows(tx, source), CHECK_MS)))
    }
    const text = `${mapping.table}, ${pluralize(mapping.outputs.length, 'column')} to fill`
    if (errors.length > 0) return createFailedFinding(name, ...errors)
    return createFinding(name, warnings.length > 0 ? 'warning' : 'ok', text, { problems: warnings })
  } catch (error) {
    if (sqlStateOf(error) === QUERY_CANCELED)
      return createFinding(name, 'warning', mapping.table, { problems: [tooSlow] })
    return toFinding(name, error, env)
  }
}

const FIRST_PAGE: SourcePageOptions = { after: null, limit: 200, where: null }

/** Reads the first rows: joins may multiply them, and an expression may fail on one of them. */
async function findWrongRows(db: Database, source: Source): Promise<readonly SourceProblem[]> {
  try {
    await inTransaction(db, (tx) => pageQuery(source, FIRST_PAGE).execute(tx), CHECK_MS)
    return []
  } catch (error) {
    const problems = await explainPageFailure(db, source, FIRST_PAGE, error)
    if (problems === null) throw error
    return problems.problems
  }
}

const tooSlow: Problem = {
  place: 'table',
  found: `reading its first rows took longer than ${CHECK_MS / 1_000} s; the rest was not checked`,
  expected: 'pages of 1,000 rows within milliseconds',
  todo: 'Look for a missing index for `joins` and sub-selects of the inputs, or for a lock on the table.',
}

/** Whether row-level security may hide every row of a source. Empty if it shows one. */
async function explainNoRows(db: Db, source: Source): Promise<SourceProblem[]> {
  const { table, name } = source
  const rows = await query(
    db,
    `select from ${table.sql} as t ${joinsSql(source)} where ${eligibleSql(source)} limit 1`,
  )
  if (rows.length > 0 || !(await mayHideRows(db, source))) return []
  return [
    {
      source: name,
      place: 'table',
      found: 'no row of the source that this role may read: row-level security may hide them',
      expected: 'policies that let the role read the rows',
      todo: `Create policies for the role, for SELECT and for UPDATE; those of the table: select * from pg_policies where tablename = ${quoteLiteral(table.name)}`,
    },
  ]
}

/** Checks the triggers of a source with live sync. */
async function checkTriggers(db: Database, source: Source): Promise<Finding> {
  const name = `follow ${source.name}`
  const there = await readTriggerState(db, source)
  if (there.state === 'right') return createFinding(name, 'ok', 'triggers installed')
  const why = there.state === 'missing' ? 'triggers not installed' : there.why
  return createFinding(name, 'error', why, { todo: `Run \`fillrate follow install ${source.name}\`.` })
}
