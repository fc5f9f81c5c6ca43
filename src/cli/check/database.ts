import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import { openSource } from '../../sources/source.ts'
import { pendingMigrations } from '../../store/migrate.ts'
import { openDatabase, type Database } from '../../store/open.ts'
import { addressOf } from '../render/database-error.ts'
import { counted } from '../render/numbers.ts'
import { checkFollow } from './follow.ts'
import { finding, findingOf, wrongBecause, type Finding } from './finding.ts'

/** The database, our schema in it, and every source held against it; each told as soon as it is known. */
export async function* checkDatabase(
  url: string | null,
  config: Config | null,
  env: NodeJS.ProcessEnv,
): AsyncGenerator<Finding> {
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
    return
  }
  const db = openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (connected.verdict === 'wrong') {
      yield* skipped(config, 'the database does not answer')
      return
    }
    yield await checkSchema(db, env)
    for (const mapping of Object.values(config?.sources ?? {})) {
      const name = `source ${mapping.name}`
      try {
        const source = await openSource(db, mapping)
        yield finding(
          name,
          'ok',
          `${source.mapping.table}, ${counted(source.outputs.length, 'column')} to fill`,
        )
        if (mapping.follow) yield await checkFollow(db, source)
      } catch (error) {
        yield findingOf(name, error, env)
      }
    }
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

async function checkSchema(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
  try {
    const pending = await pendingMigrations(db)
    if (pending.length === 0) return finding('schema', 'ok', 'up to date')
    return wrongBecause('schema', [
      {
        place: 'the schema "fillrate"',
        found: `without ${pending.join(', ')}`,
        expected: 'the schema of this version',
        todo: 'Run `fillrate migrate`.',
      },
    ])
  } catch (error) {
    return findingOf('schema', error, env)
  }
}
