import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { openApp, type App } from '../../app.ts'
import { readEnvironment, type Environment } from '../../config/environment.ts'
import type { Sandbox } from '../../sandbox/server.ts'
import { serviceAddress } from '../../service/base-url.ts'
import { migrate } from '../../store/migrate.ts'
import { openDatabase, type Database } from '../../store/open.ts'
import * as services from '../../store/services.ts'
import type { Context } from '../context.ts'
import { createLog } from '../log.ts'
import { limitText } from '../render/limit.ts'
import { count, counted } from '../../domain/numbers.ts'
import { demoConfig } from './config.ts'
import { makeCrm } from './crm/crm.ts'
import { openPostgres, type DemoPostgres } from './postgres/open.ts'
import type { Stage } from './screen/stage.ts'
import { startService } from './service.ts'
import type { DemoSettings } from './settings.ts'

/** The demo's own folder, in the working folder. */
export const STATE = '.fillrate'

/** All that a demo needs, running. */
export interface World {
  /** The path of the demo's own folder. */
  readonly state: string
  readonly postgres: DemoPostgres
  /** Whether the CRM was made now. */
  readonly crmIsNew: boolean
  readonly service: Sandbox
  readonly app: App
  /** For the demo's own look at the database, apart from the code that it shows. */
  readonly client: pg.Client
}

/**
 * Builds the demo's world, acts in it, and takes it down again, however that ends. What is in the database stays.
 * @throws DemoProblem where something of it can't be had on this machine
 */
export async function inWorld<T>(
  stage: Stage,
  context: Context,
  options: { readonly logLevel: Environment['logLevel']; readonly settings: DemoSettings },
  act: (world: World) => Promise<T>,
): Promise<T> {
  const { cwd, env, signal, stderr } = context
  const { settings } = options
  const state = await folderFor(cwd)
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
    const crmIsNew = await stage.step(
      'making the CRM',
      () => makeCrm(client, settings),
      (isNew) =>
        isNew
          ? `A CRM of ${counted(settings.accounts, 'company', 'companies')} and ${count(settings.contacts)} people, as messy as real ones`
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
      () => startService(settings),
      (started) =>
        `An enrichment service on ${started.url.replace('http://', '')}, ${limitText(settings.limit, started.settings.windowMs)}`,
    )
    ending.push(() => service.close())
    // The same service as that of the last demo, on whatever port: what it answered then counts.
    await withStore(postgres.url, (db) => services.move(db, serviceAddress(service.url)))

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
    return await act({ state, postgres, crmIsNew, service, app, client })
  } finally {
    // The last first; and whatever goes wrong with one, the others end too.
    for (const end of ending.toReversed()) await end().catch(() => {})
  }
}

/** Its real path: the home of Postgres is told by its own, too. */
async function folderFor(cwd: string): Promise<string> {
  const state = join(cwd, STATE)
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
