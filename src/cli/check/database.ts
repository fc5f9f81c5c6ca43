import * as runs from '../../store/runs.ts'
import * as services from '../../store/services.ts'
import { sql } from 'kysely'
import { type Config, listViews } from '../../config/config.ts'
import { type Environment, environmentOf, variableOf } from '../../config/environment.ts'
import { configuredAddress } from '../../pipeline/deps.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { listRemedies } from '../../sources/problems.ts'
import { openSource } from '../../sources/source.ts'
import { tryWrite } from '../../store/connectivity.ts'
import { type Database, openDatabase } from '../../store/open.ts'
import { readOne } from '../../store/sql.ts'
import { databaseAddress } from '../views/database-error.ts'
import type { ClockReading } from './clock.ts'
import { checkSchema } from './schema.ts'
import { checkSource, checkTriggerFunctions, checkTriggers, type ReadMapping, readMapping } from './source.ts'
import {
  type Finding,
  createFailedFinding,
  createFinding,
  createUnsetFinding,
  ofService,
  toFinding,
} from './finding.ts'
import { toKeyId } from '../../service/api-keys.ts'

/** A database that was checked, with what else is checked in it. */
interface CheckedDatabase {
  /** Null: it is unreachable. */
  readonly clock: ClockReading | null
  /** The sources of a view, beside each other. */
  readonly checkSources: (view: Config) => AsyncGenerator<Finding>
  /** The statements that give this role every privilege that it lacks in what was checked. */
  readonly summarizeGrants: () => Generator<Finding>
  readonly close: () => Promise<void>
}

/** Checks the database and the schema "fillrate", and yields each finding as soon as it is known. */
export async function* checkDatabase(
  environment: Environment,
  config: Config | null,
  {
    env,
    now,
  }: {
    readonly env: NodeJS.ProcessEnv
    readonly now: () => number
  },
): AsyncGenerator<Finding, CheckedDatabase> {
  const { databaseUrl: url } = environment
  if (url === null) {
    const expected = 'the address of the CRM database, postgres://user:password@host:5432/name'
    yield createUnsetFinding('database', 'DATABASE_URL', expected)
    yield createFinding('schema', 'skipped', 'no database configured')
    return createSkipped('no database configured')
  }
  const db = openDatabase({ url, max: 1 })
  try {
    const connected = await connect(db, env)
    yield connected
    if (connected.verdict === 'error') {
      await db.destroy()
      yield createFinding('schema', 'skipped', 'the database is unreachable')
      return createSkipped('the database is unreachable')
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
    if (schema.verdict === 'ok') yield* checkScopes(db, environment, config)
    const functions = await checkTriggerFunctions(db)
    if (functions !== null) yield functions
    const found = [schema]
    const reported = new Set<string>()
    return {
      clock,
      async *checkSources(view) {
        for await (const one of checkSources(db, view, { env, schema })) {
          found.push(one)
          yield withoutReported(one, reported)
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

/** @param why null: a finding has said it */
export const createSkipped = (why: string | null): CheckedDatabase => ({
  clock: null,
  async *checkSources({ sources }) {
    for (const name of why === null ? [] : Object.keys(sources))
      yield createFinding(`source ${name}`, 'skipped', why ?? '')
  },
  *summarizeGrants() {},
  close: async () => {},
})

/** A finding about a table, without what was said of it for another service. */
function withoutReported(finding: Finding, reported: Set<string>): Finding {
  const { name, verdict, problems } = finding
  const toKey = ({ place, found }: Finding['problems'][number]): string => [name, place, found].join('\0')
  const others = problems.filter((one) => !reported.has(toKey(one)))
  for (const one of others) reported.add(toKey(one))
  if (others.length === problems.length) return finding
  if (others.length > 0) return { ...finding, problems: others }
  return verdict === 'error'
    ? createFinding(name, 'skipped', 'the same problems as for the service before')
    : { ...finding, verdict: 'ok', problems: others }
}

async function* checkSources(
  db: Database,
  config: Config,
  { env, schema }: { readonly env: NodeJS.ProcessEnv; readonly schema: Finding },
): AsyncGenerator<Finding> {
  // Read first: a condition of one source may read what another one writes.
  const read: ReadMapping[] = []
  for (const mapping of Object.values(config.sources)) read.push(await readMapping(db, mapping))
  for (const one of read) {
    const { mapping } = one
    const others = read.flatMap(({ resolved }) =>
      'error' in resolved || resolved.source === null || resolved === one.resolved ? [] : [resolved.source],
    )
    const checked = await checkSource(db, one, others, env)
    yield checked
    // Of several services, the first is the one that follows the rows of the table.
    const isFollowed = mapping.follow && mapping.turn.isFirst
    if (isFollowed && checked.verdict !== 'error' && schema.verdict !== 'error')
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

/** On a connection that is open, so that the time of the answer is not that of connecting. */
async function readClock(db: Database, now: () => number): Promise<ClockReading> {
  const sentAt = now()
  const { time } = await readOne(db, sql<{ time: Date }>`select clock_timestamp() as time`)
  return { whose: 'Postgres', timeMs: time.getTime(), resolutionMs: 1, sentAt, receivedAt: now() }
}

interface OwnService {
  readonly view: Config | null
  readonly environment: Environment
  readonly address: string
}

/**
 * Warns if the database holds results of another service, or a run with another key is in progress.
 */
async function* checkScopes(
  db: Database,
  environment: Environment,
  config: Config | null,
): AsyncGenerator<Finding> {
  const views = config === null ? [null] : listViews(config)
  const own = views.flatMap((view): OwnService[] => {
    const ofView = environmentOf(environment, view?.serviceName ?? null)
    const address = configuredAddress(view ?? { serviceName: null, serviceNames: [] }, environment)
    return address === null || ofView.apiKeys.length === 0 ? [] : [{ view, environment: ofView, address }]
  })
  if (own.length === 0) return
  const listed = await services.listServices(db)
  const addresses = new Set(own.map(({ address }) => address))
  const leftover = listed.map(({ host }) => host).filter((host) => !addresses.has(host))
  for (const { view, address } of own) {
    const name = view?.serviceName ?? null
    const service = listed.find(({ host }) => host === address)
    if (service === undefined && leftover.length > 0)
      yield ofService(name, checkScope(address, name, leftover))
  }
  yield* checkRunning(db, own)
}

/** @param leftover what the database holds results of, and the configuration does not have */
function checkScope(address: string, name: string | null, leftover: readonly string[]): Finding {
  // A service that shares its host has its name after it, which it had not while it was the only one.
  const before = leftover.find((host) => address === `${host}/${name}`) ?? leftover[0]
  return createFinding(
    'scope',
    'warning',
    `this database holds results of ${leftover.join(', ')}, and none of ${address}`,
    {
      todo:
        `They are not used for ${address}, so lookups there are billed again. If the service has only moved, run ` +
        `update fillrate.services set host = '${address}' where host = '${before}';`,
    },
  )
}

async function* checkRunning(db: Database, own: readonly OwnService[]): AsyncGenerator<Finding> {
  const scopes = new Set(
    own.flatMap(({ view, environment, address }) => [
      ...environment.apiKeys.map((key) => `${address} ${toKeyId(key)}`),
      ...(view === null || view.service.account === null ? [] : [`${address} ${view.service.account}`]),
    ]),
  )
  const others = (await runs.listRunning(db)).filter(({ scope }) => scope !== null && !scopes.has(scope))
  if (others.length === 0) return
  const variables = own.flatMap(({ environment }) => [
    variableOf(environment, 'BASE_URL'),
    variableOf(environment, 'API_KEY'),
  ])
  yield createFinding(
    'scope',
    'warning',
    `${others.map(({ id, scope }) => `run ${id} (${scope})`).join(', ')} is in progress with another service or key`,
    {
      todo: `Its rows and lookups are not shared. If this is unintended, correct ${variables.join(' or ')} there or here.`,
    },
  )
}
