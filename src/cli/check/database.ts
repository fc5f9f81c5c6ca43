import * as runs from '../../store/runs.ts'
import * as services from '../../store/services.ts'
import { sql } from 'kysely'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { grantStatements } from '../../sources/grants.ts'
import { openSource } from '../../sources/source.ts'
import { tryWrite } from '../../store/connectivity.ts'
import { type Database, openDatabase } from '../../store/open.ts'
import { readOne } from '../../store/sql.ts'
import { databaseAddress } from '../views/database-error.ts'
import type { ClockReading } from './clock.ts'
import { checkDescription } from './description.ts'
import { checkSchema } from './schema.ts'
import { checkSource, checkTriggerFunctions, checkTriggers, type ReadMapping, readMapping } from './source.ts'
import { type Finding, createFailedFinding, createFinding, createUnsetFinding, toFinding } from './finding.ts'
import { toServiceAddress } from '../../service/dispatcher.ts'
import { toKeyId } from '../../service/api-keys.ts'

/**
 * Checks the database, the schema "fillrate" and every source, and yields each finding as soon as it is known.
 * @returns its clock; null if it is unreachable
 */
export async function* checkDatabase(
  environment: Pick<Environment, 'databaseUrl' | 'baseUrl' | 'apiKeys'>,
  config: Config | null,
  {
    env,
    now,
    hasInvalidService,
  }: {
    readonly env: NodeJS.ProcessEnv
    readonly now: () => number
    readonly hasInvalidService: boolean
  },
): AsyncGenerator<Finding, ClockReading | null> {
  const { databaseUrl: url } = environment
  if (url === null) {
    const expected = 'the address of the CRM database, postgres://user:password@host:5432/name'
    yield createUnsetFinding('database', 'DATABASE_URL', expected)
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
    const refused = describeRefusal(await tryWrite(db))
    if (refused !== null)
      yield createFailedFinding('writes', {
        place: 'DATABASE_URL',
        found: refused.title,
        expected: 'a Postgres that takes writes: all state is stored there',
        todo: refused.action,
      })
    const clock = await readClock(db, now)
    const schema = await checkSchema(db, env)
    yield schema
    if (schema.verdict === 'ok') yield* checkScope(db, environment, hasInvalidService ? null : config)
    const functions = await checkTriggerFunctions(db)
    if (functions !== null) yield functions
    const found = [schema]
    // Read first: a condition of one source may read what another one writes.
    const read: ReadMapping[] = []
    for (const mapping of Object.values(config?.sources ?? {})) read.push(await readMapping(db, mapping))
    for (const one of read) {
      const { mapping } = one
      const others = read.flatMap(({ resolved }) =>
        'error' in resolved || resolved.source === null || resolved === one.resolved ? [] : [resolved.source],
      )
      const checked = await checkSource(db, one, others, env)
      found.push(checked)
      yield checked
      if (mapping.follow && checked.verdict !== 'error' && schema.verdict !== 'error')
        yield schema.verdict === 'ok'
          ? await checkTriggers(db, await openSource(db, mapping))
          : createFinding(`follow ${mapping.name}`, 'warning', 'triggers not installed', {
              todo: `After \`fillrate migrate\`, run \`fillrate follow install ${mapping.name}\`.`,
            })
    }
    yield* summarizeGrants(found)
    return clock
  } finally {
    await db.destroy()
  }
}

/** The statements that give this role every privilege that it lacks, in one place to copy from. */
function* summarizeGrants(findings: readonly Finding[]): Generator<Finding> {
  const grants = findings.flatMap(({ problems }) => problems.flatMap(({ grant }) => grant ?? []))
  const [first] = grants
  if (first === undefined) return
  yield createFinding('privileges', 'error', `The role ${first.role} lacks some. Run as the owner:`, {
    todo: grantStatements(grants).join('\n'),
  })
}

function* skipped(config: Config | null, why: string): Generator<Finding> {
  yield createFinding('schema', 'skipped', why)
  for (const name of Object.keys(config?.sources ?? {})) yield createFinding(`source ${name}`, 'skipped', why)
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

/** On a connection that is open, so that the time of the answer is not that of connecting. */
async function readClock(db: Database, now: () => number): Promise<ClockReading> {
  const sentAt = now()
  const { time } = await readOne(db, sql<{ time: Date }>`select clock_timestamp() as time`)
  return { whose: 'Postgres', timeMs: time.getTime(), resolutionMs: 1, sentAt, receivedAt: now() }
}

/**
 * Warns if the database holds results of another service, or of another form of its description, or a run with another key is
 * in progress.
 */
async function* checkScope(
  db: Database,
  { baseUrl, apiKeys }: Pick<Environment, 'baseUrl' | 'apiKeys'>,
  config: Config | null,
): AsyncGenerator<Finding> {
  if (baseUrl === null || apiKeys.length === 0) return
  const address = toServiceAddress(baseUrl)
  const listed = await services.listServices(db)
  const known = listed.map(({ host }) => host)
  if (known.length > 0 && !known.includes(address))
    yield createFinding(
      'scope',
      'warning',
      `this database holds results of ${known.join(', ')}, and none of ${address}`,
      {
        todo:
          `They are not used for ${address}, so lookups there are billed again. If the service has only moved, run ` +
          `update fillrate.services set host = '${address}' where host = '${known[0]}';`,
      },
    )
  const service = listed.find(({ host }) => host === address)
  const earlier = service && config && (await checkDescription(db, service, config))
  if (earlier) yield earlier
  const own = new Set(apiKeys.map((key) => `${address} ${toKeyId(key)}`))
  const others = (await runs.listRunning(db)).filter(({ scope }) => scope !== null && !own.has(scope))
  if (others.length > 0)
    yield createFinding(
      'scope',
      'warning',
      `${others.map(({ id, scope }) => `run ${id} (${scope})`).join(', ')} is in progress with another service or key`,
      {
        todo: 'Its rows and lookups are not shared. If this is unintended, correct FILLRATE_BASE_URL or FILLRATE_API_KEY there or here.',
      },
    )
}
