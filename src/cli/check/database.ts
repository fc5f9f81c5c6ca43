import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import type { Problem } from '../../config/problems.ts'
import { PreReleaseSchemaError, pendingMigrations } from '../../store/migrate.ts'
import { openSource } from '../../sources/source.ts'
import { openDatabase, type Database } from '../../store/open.ts'
import { addressOf } from '../render/database-error.ts'
import type { ClockReading } from './clock.ts'
import { checkFollow, checkFunctions } from './follow.ts'
import { finding, findingOf, wrongBecause, type Finding } from './finding.ts'
import { missingRights } from './rights.ts'
import { checkScope } from './scope.ts'
import { checkSource } from './source.ts'

/**
 * The database, our schema in it, and every source held against it; each told as soon as it is known.
 * @returns what time it is there; null when it does not answer
 */
export async function* checkDatabase(
  environment: Pick<Environment, 'databaseUrl' | 'baseUrl' | 'apiKeys'>,
  config: Config | null,
  { env, now }: { readonly env: NodeJS.ProcessEnv; readonly now: () => number },
): AsyncGenerator<Finding, ClockReading | null> {
  const { databaseUrl: url } = environment
  if (url === null) {
    yield wrongBecause('database', [
      {
        place: 'DATABASE_URL',
        found: 'not set',
        expected: 'the address of the CRM database, postgres://user:password@host:5432/name',
        todo: 'Set it in the environment or in a .env file in this folder.',
      },
    ])
    yield* skipped(config, 'the database is not known')
    return null
  }
  const db = openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (connected.verdict === 'error') {
      yield* skipped(config, 'the database does not answer')
      return null
    }
    const clock = await readClock(db, now)
    const schema = await checkSchema(db, env)
    yield schema
    if (schema.verdict === 'ok') yield* checkScope(db, environment)
    const functions = await checkFunctions(db)
    if (functions !== null) yield functions
    for (const mapping of Object.values(config?.sources ?? {})) {
      const checked = await checkSource(db, mapping, env)
      yield checked
      if (mapping.follow && checked.verdict !== 'error')
        yield await checkFollow(db, await openSource(db, mapping))
    }
    return clock
  } finally {
    await db.destroy()
  }
}

function* skipped(config: Config | null, why: string): Generator<Finding> {
  yield finding('schema', 'skipped', why)
  for (const name of Object.keys(config?.sources ?? {})) yield finding(`source ${name}`, 'skipped', why)
}

async function connect(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const { rows } = await sql<{
      version: string
    }>`select current_setting('server_version') as version`.execute(db)
    const version = rows[0]?.version.split(' ')[0] ?? ''
    return finding('database', 'ok', `Postgres ${version}, ${addressOf(env['DATABASE_URL'])}`)
  } catch (error) {
    return findingOf('database', error, env)
  }
}

/** Asked twice, because the first answer may have waited for the connection. */
async function readClock(db: Database, now: () => number): Promise<ClockReading> {
  const read = async (): Promise<ClockReading> => {
    const asked = now()
    const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
    return {
      whose: 'Postgres',
      tells: rows[0]?.now.getTime() ?? 0,
      resolutionMs: 1,
      asked,
      answered: now(),
    }
  }
  await read()
  return read()
}

async function checkSchema(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const pending = await pendingMigrations(db)
    const problem = await (pending.length === 0 ? missingRights(db) : missingMigrations(db, pending))
    return problem === null ? finding('schema', 'ok', 'up to date') : wrongBecause('schema', [problem])
  } catch (error) {
    if (!(error instanceof PreReleaseSchemaError)) return findingOf('schema', error, env)
    return wrongBecause('schema', [
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
    found: there ? `without ${pending.join(', ')}` : 'not there yet',
    expected: 'the schema of this version',
    todo:
      there || mayCreate
        ? 'Run `fillrate migrate`.'
        : `This role may not create it. First: grant create on database ${database} to ${role}. Then run \`fillrate migrate\`.`,
  }
}
