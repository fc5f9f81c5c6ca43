import * as services from '../../store/services.ts'
import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import { configuredAddress } from '../../pipeline/deps.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { listRemedies } from '../../sources/problems.ts'
import { openSource } from '../../sources/source.ts'
import { tryWrite } from '../../store/connectivity.ts'
import { type Database, openDatabase } from '../../store/open.ts'
import { readOne } from '../../store/sql.ts'
import { databaseAddress } from '../views/database-error.ts'
import { checkSchema } from './schema.ts'
import { checkSource, checkTriggers } from './source.ts'
import {
  type Finding,
  createFailedFinding,
  createFinding,
  createUnsetFinding,
  ofService,
  toFinding,
} from './finding.ts'

/** A database that was checked, with what else is checked in it. */
interface CheckedDatabase {
  readonly checkSources: (sources: readonly SourceMapping[]) => AsyncGenerator<Finding>
  /** The statements that give this role every privilege that it lacks in what was checked. */
  readonly summarizeGrants: () => Generator<Finding>
  readonly close: () => Promise<void>
}

/**
 * Checks the database and the schema "fillrate", and yields each finding as soon as it is known.
 * @returns null if there is none to check sources in
 */
export async function* checkDatabase(
  environment: Environment,
  config: Config | null,
  env: NodeJS.ProcessEnv,
): AsyncGenerator<Finding, CheckedDatabase | null> {
  const { databaseUrl: url } = environment
  if (url === null) {
    const expected = 'the address of the CRM database, postgres://user:password@host:5432/name'
    yield createUnsetFinding('database', 'DATABASE_URL', expected)
    yield createFinding('schema', 'skipped', 'no database')
    return null
  }
  const db = openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (connected.verdict === 'error') {
      await db.destroy()
      yield createFinding('schema', 'skipped', 'no database')
      return null
    }
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
    if (schema.verdict === 'ok') yield* checkScopes(db, environment, config)
    const found = [schema]
    return {
      async *checkSources(sources) {
        for await (const one of checkSources(db, sources, { env, schema })) {
          found.push(one)
          yield one
        }
      },
      summarizeGrants: () => summarizeGrants(found),
      close: () => db.destroy(),
    }
  } catch (error) {
    await db.destroy()
    throw error
  }
}

async function* checkSources(
  db: Database,
  sources: readonly SourceMapping[],
  { env, schema }: { readonly env: NodeJS.ProcessEnv; readonly schema: Finding },
): AsyncGenerator<Finding> {
  for (const mapping of sources) {
    const checked = await checkSource(db, mapping, env)
    yield checked
    if (mapping.follow && checked.verdict !== 'error' && schema.verdict !== 'error')
      yield schema.verdict === 'ok'
        ? await checkTriggers(db, await openSource(db, mapping))
        : createFinding(`follow ${mapping.name}`, 'warning', 'triggers not installed', {
            todo: `After \`fillrate migrate\`, run \`fillrate follow install ${mapping.name}\`.`,
          })
  }
}

/** The statements that give this role every privilege that it lacks, in one place to copy from. */
function* summarizeGrants(findings: readonly Finding[]): Generator<Finding> {
  const problems = findings.flatMap((finding) => finding.problems)
  const role = problems.find(({ grant }) => grant !== undefined)?.grant?.role
  if (role === undefined) return
  yield createFinding('privileges', 'error', `The role ${role} lacks some. Run as the owner:`, {
    todo: listRemedies(problems).join('\n'),
  })
}

async function connect(db: Database, env: NodeJS.ProcessEnv): Promise<Finding> {
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
  for (const { name, address } of own.filter((one) => !stored.includes(one.address))) {
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
