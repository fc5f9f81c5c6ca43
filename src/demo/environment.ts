import pg from 'pg'
import { moveService } from '../store/services.ts'
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { type App, openApp } from '../app.ts'
import { type Environment, readEnvironment, toVariablePart } from '../config/environment.ts'
import type { Sandbox } from '../sandbox/server.ts'
import { toServiceAddress } from '../service/dispatcher.ts'
import { migrate } from '../store/migrate.ts'
import { type Database, openDatabase } from '../store/open.ts'
import type { Context } from '../cli/command.ts'
import { createLog } from '../cli/log.ts'
import { formatLimit } from '../domain/rate-status.ts'
import { formatCount, formatPercent, pluralize } from '../util/format.ts'
import {
  DEMO_SERVICE_NAMES,
  DEMO_SERVICES,
  type DemoServiceName,
  type DemoSettings,
  demoConfig,
  startDemoService,
} from './settings.ts'
import { createCrm } from './crm/crm.ts'
import { type DemoPostgres, openPostgres } from './postgres/open.ts'
import type { Presenter } from './presenter.ts'

/** The demo's folder, in the working directory. */
export const STATE_FOLDER = '.fillrate'

type DemoServices = Readonly<Record<DemoServiceName, Sandbox>>

/** The running parts of a demo. */
export interface DemoEnvironment {
  /** Path of the demo's folder. */
  readonly state: string
  readonly postgres: DemoPostgres
  /** Whether the CRM was created by this demo. */
  readonly isNewCrm: boolean
  readonly services: DemoServices
  readonly app: App
  /** The settings with which other commands reach its parts. */
  readonly variables: Readonly<Record<string, string>>
  /** For the demo's own queries, independent of the code that it shows. */
  readonly client: pg.Client
}

/**
 * Starts the parts of the demo, calls `act`, and stops them again however it ends. The database keeps its data.
 * @throws DemoError if a part cannot run on this machine
 */
export async function withDemoEnvironment<T>(
  presenter: Presenter,
  context: Context,
  options: { readonly logLevel: Environment['logLevel']; readonly settings: DemoSettings },
  act: (world: DemoEnvironment) => Promise<T>,
): Promise<T> {
  const { cwd, env, signal, stderr } = context
  const { settings } = options
  const state = await createStateFolder(cwd)
  const ending: (() => Promise<unknown>)[] = []
  try {
    const postgres = await presenter.step(
      'starting an embedded Postgres',
      () => openPostgres(state, env),
      ({ version, address }) => `Postgres ${version} on ${address}, its data in .fillrate/postgres`,
    )
    ending.push(() => postgres.stop())
    signal.throwIfAborted()

    const client = new pg.Client({ connectionString: postgres.url, application_name: 'fillrate demo' })
    client.on('error', () => {})
    await client.connect()
    ending.push(() => client.end())
    const isNewCrm = await presenter.step(
      'creating the CRM',
      () => createCrm(client, settings),
      (isNew) =>
        isNew
          ? `A CRM of ${pluralize(settings.accounts, 'company', 'companies')} and ${formatCount(settings.contacts)} people, with realistic data quality`
          : 'The CRM of the last demo',
    )

    await presenter.step(
      "creating Fillrate's tables",
      () => withStore(postgres.url, migrate),
      () => "Fillrate's tables, in the schema fillrate",
    )
    await expireLeases(client)
    signal.throwIfAborted()

    const started: Partial<Record<DemoServiceName, Sandbox>> = {}
    for (const name of DEMO_SERVICE_NAMES) {
      const service = await presenter.step(
        `starting the service ${name}`,
        () => startDemoService(settings, name),
        ({ url, settings: { limit, windowMs } }) =>
          `An enrichment service, ${name}, on ${url.replace('http://', '')}: it knows ${formatPercent(DEMO_SERVICES[name].knows)} of all, ${formatLimit(limit ?? 0, windowMs)}`,
      )
      ending.push(() => service.close())
      started[name] = service
      // Treat it as the service of the last demo, whatever its port, so that stored answers count.
      await withStore(postgres.url, (db) => moveService(db, name, toServiceAddress(service.url)))
    }
    const services = started as DemoServices

    const variables = { DATABASE_URL: postgres.url, ...listVariables(services) }
    const app = await openApp({
      config: demoConfig(settings),
      // Only the demo's own settings: never the user's database or service.
      environment: readEnvironment(variables),
      log: createLog({ level: options.logLevel, format: 'pretty', output: stderr, mask: (text) => text }),
    })
    ending.push(() => app.close())
    return await act({ state, postgres, isNewCrm, services, app, variables, client })
  } finally {
    // In reverse order; a failure does not keep the others from stopping.
    for (const end of ending.toReversed()) await end().catch(() => {})
  }
}

/** The address and the secrets of each service. */
const listVariables = (services: DemoServices): Readonly<Record<string, string>> =>
  Object.fromEntries(
    DEMO_SERVICE_NAMES.flatMap((name) => {
      const { url, keys, webhookSecret } = services[name]
      const prefix = `FILLRATE_${toVariablePart(name)}`
      return [
        [`${prefix}_BASE_URL`, url],
        [`${prefix}_API_KEY`, keys.join(',')],
        [`${prefix}_WEBHOOK_SECRET`, webhookSecret],
      ]
    }),
  )

/**
 * Ends the leases of a killed demo, which would hold its rows for some seconds more: no other process works on this
 * database, because this demo holds its lock.
 */
async function expireLeases(client: pg.Client): Promise<void> {
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.columns
      where table_schema = 'fillrate' and column_name = 'leased_until'`,
  )
  for (const { name } of tables)
    await client.query(`update ${name} set leased_until = now() where leased_until > now()`)
}

/** The real path, because the folder of Postgres is compared to it. */
async function createStateFolder(cwd: string): Promise<string> {
  const state = join(cwd, STATE_FOLDER)
  await mkdir(state, { recursive: true })
  return realpath(state)
}

async function withStore<T>(url: string, act: (db: Database) => Promise<T>): Promise<T> {
  const db = openDatabase({ url, max: 1 })
  try {
    return await act(db)
  } finally {
    await db.destroy()
  }
}
