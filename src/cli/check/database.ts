import * as runs from '../../store/runs.ts'
import * as services from '../../store/services.ts'
import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import type { Problem } from '../../config/problems.ts'
import { PreReleaseSchemaError, pendingMigrations } from '../../store/migrate.ts'
import { openSource } from '../../sources/source.ts'
import { type Database, openDatabase } from '../../store/open.ts'
import { databaseAddress } from '../views/database-error.ts'
import type { ClockReading } from './clock.ts'
import { checkSource, checkTriggerFunctions, checkTriggers } from './source.ts'
import { type Finding, createFailedFinding, createFinding, toFinding } from './finding.ts'
import { toServiceAddress } from '../../service/dispatcher.ts'
import { toKeyId } from '../../service/api-keys.ts'

/**
 * Checks the database, the schema "fillrate" and every source, and yields each finding as soon as it is known.
 * @returns its clock; null if it is unreachable
 */
export async function* checkDatabase(
  environment: Pick<Environment, 'databaseUrl' | 'baseUrl' | 'apiKeys'>,
  config: Config | null,
  { env, now }: { readonly env: NodeJS.ProcessEnv; readonly now: () => number },
): AsyncGenerator<Finding, ClockReading | null> {
  const { databaseUrl: url } = environment
  if (url === null) {
    yield createFailedFinding('database', [
      {
        place: 'DATABASE_URL',
        found: 'not set',
        expected: 'the address of the CRM database, postgres://user:password@host:5432/name',
        todo: 'Set it in the environment or in a .env file in this folder.',
      },
    ])
    yield* skipped(config, 'no database configured')
    return null
  }
  const db = openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (connected.verdict === 'error') {
      yield* skipped(config, 'the database is unreachable')
      return null
    }
    const clock = await readClock(db, now)
    const schema = await checkSchema(db, env)
    yield schema
    if (schema.verdict === 'ok') yield* checkScope(db, environment)
    const functions = await checkTriggerFunctions(db)
    if (functions !== null) yield functions
    for (const mapping of Object.values(config?.sources ?? {})) {
      const checked = await checkSource(db, mapping, env)
      yield checked
      if (mapping.follow && checked.verdict !== 'error')
        yield await checkTriggers(db, await openSource(db, mapping))
    }
    return clock
  } finally {
    await db.destroy()
  }
}

function* skipped(config: Config | null, why: string): Generator<Finding> {
  yield createFinding('schema', 'skipped', why)
  for (const name of Object.keys(config?.sources ?? {})) yield createFinding(`source ${name}`, 'skipped', why)
}

async function connect(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const { rows } = await sql<{
      version: string
    }>`select current_setting('server_version') as version`.execute(db)
    const version = rows[0]?.version.split(' ')[0] ?? ''
    return createFinding('database', 'ok', `Postgres ${version}, ${databaseAddress(env['DATABASE_URL'])}`)
  } catch (error) {
    return toFinding('database', error, env)
  }
}

/** Read twice, because the first response may include the connection time. */
async function readClock(db: Database, now: () => number): Promise<ClockReading> {
  const read = async (): Promise<ClockReading> => {
    const sentAt = now()
    const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
    return {
      whose: 'Postgres',
      timeMs: rows[0]?.now.getTime() ?? 0,
      resolutionMs: 1,
      sentAt,
      receivedAt: now(),
    }
  }
  await read()
  return read()
}

async function checkSchema(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const pending = await pendingMigrations(db)
    const problem = await (pending.length === 0 ? findMissingPrivileges(db) : missingMigrations(db, pending))
    return problem === null
      ? createFinding('schema', 'ok', 'up to date')
      : createFailedFinding('schema', [problem])
  } catch (error) {
    if (!(error instanceof PreReleaseSchemaError)) return toFinding('schema', error, env)
    return createFailedFinding('schema', [
      {
        place: 'the schema "fillrate"',
        found: 'created by a version before the first release',
        expected: 'the schema of this version',
        todo: `${error.todo}.`,
      },
    ])
  }
}

async function missingMigrations(db: Database, pending: readonly string[]): Promise<Problem> {
  const { rows } = await sql<{ there: boolean; mayCreate: boolean; database: string; role: string }>`
    select to_regnamespace('fillrate') is not null as there,
           has_database_privilege(current_database(), 'create') as "mayCreate",
           quote_ident(current_database()) as database, quote_ident(current_user) as role`.execute(db)
  const { there = false, mayCreate = true, database = '', role = '' } = rows[0] ?? {}
  return {
    place: 'the schema "fillrate"',
    found: there ? `without ${pending.join(', ')}` : 'missing',
    expected: 'the schema of this version',
    todo:
      there || mayCreate
        ? 'Run `fillrate migrate`.'
        : `This role may not create it. First: grant create on database ${database} to ${role}. Then run \`fillrate migrate\`.`,
  }
}

/** Missing privileges of this role on the schema `fillrate`, if another role created it; null if none is missing. */
export async function findMissingPrivileges(db: Database): Promise<Problem | null> {
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
    expected: 'a role with these privileges: all state is stored there',
    todo: `grant select, insert, update, delete on all tables in schema fillrate to ${first.role}`,
  }
}

const NAME = 'scope'

/** Warns if the database holds results of another service, or a run with another key is in progress. */
export async function* checkScope(
  db: Database,
  { baseUrl, apiKeys }: Pick<Environment, 'baseUrl' | 'apiKeys'>,
): AsyncGenerator<Finding> {
  if (baseUrl === null || apiKeys.length === 0) return
  const address = toServiceAddress(baseUrl)
  const known = (await services.listServices(db)).map(({ host }) => host)
  if (known.length > 0 && !known.includes(address))
    yield createFinding(
      NAME,
      'warning',
      `this database holds results of ${known.join(', ')}, and none of ${address}`,
      {
        todo:
          `They are not used for ${address}, so lookups there are billed again. If the service has only moved, run ` +
          `update fillrate.services set host = '${address}' where host = '${known[0]}';`,
      },
    )
  const own = new Set(apiKeys.map((key) => `${address} ${toKeyId(key)}`))
  const others = (await runs.listRunning(db)).filter(({ scope }) => scope !== null && !own.has(scope))
  if (others.length > 0)
    yield createFinding(
      NAME,
      'warning',
      `${others.map(({ id, scope }) => `run ${id} (${scope})`).join(', ')} is in progress with another service or key`,
      {
        todo: 'Its rows and lookups are not shared. If this is unintended, correct FILLRATE_BASE_URL or FILLRATE_API_KEY there or here.',
      },
    )
}
