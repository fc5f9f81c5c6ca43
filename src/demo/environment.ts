import pg from 'pg'
import * as services from '../store/services.ts'
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { type App, openApp } from '../app.ts'
import { type Environment, readEnvironment } from '../config/environment.ts'
import type { Sandbox } from '../sandbox/server.ts'
import { toServiceAddress } from '../service/dispatcher.ts'
import { migrate } from '../store/migrate.ts'
import { type Database, openDatabase } from '../store/open.ts'
import type { Context } from '../cli/context.ts'
import { createLog } from '../cli/log.ts'
import { limitText } from '../cli/render/limit.ts'
import { formatCount, pluralize } from '../util/format.ts'
import { type DemoSettings, demoConfig, startDemoService } from './settings.ts'
import { createCrm } from './crm/crm.ts'
import { type DemoPostgres, openPostgres } from './postgres/open.ts'
import type { Presenter } from './presenter.ts'

/** The demo's own folder, in the working folder. */
export const STATE_FOLDER = '.fillrate'

/** All that a demo needs, running. */
export interface DemoEnvironment {
  /** The path of the demo's own folder. */
  readonly state: string
  readonly postgres: DemoPostgres
  /** Whether the CRM was made now. */
  readonly isNewCrm: boolean
  readonly service: Sandbox
  readonly app: App
  /** For the demo's own look at the database, apart from the code that it shows. */
  readonly client: pg.Client
}

/**
 * Builds the demo's world, acts in it, and takes it down again, however that ends. What is in the database stays.
 * @throws DemoProblem where something of it can't be had on this machine
 */
export async function withDemoEnvironment<T>(
  stage: Presenter,
  context: Context,
  options: { readonly logLevel: Environment['logLevel']; readonly settings: DemoSettings },
  act: (world: DemoEnvironment) => Promise<T>,
): Promise<T> {
  const { cwd, env, signal, stderr } = context
  const { settings } = options
  const state = await createStateFolder(cwd)
  const ending: (() => Promise<unknown>)[] = []
  try {
    const postgres = await stage.step(
      'starting a Postgres of its own',
      () => openPostgres(state, env),
      ({ version, address }) => `Postgres ${version} on ${address}, its data in .fillrate/postgres`,
    )
    ending.push(() => postgres.stop())
    signal.throwIfAborted()

    const client = new pg.Client({ connectionString: postgres.url, application_name: 'fillrate demo' })
    client.on('error', () => {})
    await client.connect()
    ending.push(() => client.end())
    const isNewCrm = await stage.step(
      'making the CRM',
      () => createCrm(client, settings),
      (isNew) =>
        isNew
          ? `A CRM of ${pluralize(settings.accounts, 'company', 'companies')} and ${formatCount(settings.contacts)} people, as messy as real ones`
          : 'The CRM of the last demo, as that one left it',
    )

    await stage.step(
      "making Fillrate's tables",
      () => withStore(postgres.url, migrate),
      () => "Fillrate's own tables, in the schema fillrate",
    )
    signal.throwIfAborted()

    const service = await stage.step(
      'starting the service',
      () => startDemoService(settings),
      (started) =>
        `An enrichment service on ${started.url.replace('http://', '')}, ${limitText(settings.limit, started.settings.windowMs)}`,
    )
    ending.push(() => service.close())
    // The same service as that of the last demo, on whatever port: what it answered then counts.
    await withStore(postgres.url, (db) => services.moveService(db, toServiceAddress(service.url)))

    const app = await openApp({
      config: demoConfig(settings),
      // Only what is the demo's own: a database or a service of the user's is none of its business.
      environment: readEnvironment({
        DATABASE_URL: postgres.url,
        FILLRATE_BASE_URL: service.url,
        FILLRATE_API_KEY: service.keys.join(','),
        FILLRATE_WEBHOOK_SECRET: service.webhookSecret,
      }),
      log: createLog({ level: options.logLevel, format: 'short', output: stderr, mask: (text) => text }),
    })
    ending.push(() => app.close())
    return await act({ state, postgres, isNewCrm, service, app, client })
  } finally {
    // The last first; and whatever goes wrong with one, the others end too.
    for (const end of ending.toReversed()) await end().catch(() => {})
  }
}

/** Its real path: the home of Postgres is told by its own, too. */
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
