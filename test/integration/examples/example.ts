import { execFile } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import pino from 'pino'
import { openApp, type App } from '../../../src/app.ts'
import type { Config } from '../../../src/config/config.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { programPath } from '../../support/cli.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { environmentFor } from '../../support/harness.ts'

const root = resolve(import.meta.dirname, '../../..')

/** Every folder under examples/ with a database, so that a new one is tested, too. */
export const exampleNames = readdirSync(join(root, 'examples')).filter((name) =>
  existsSync(join(root, 'examples', name, 'schema.sql')),
)

const folderOf = (name: string): string => join(root, 'examples', name)

/** An example in a database of its own, with a sandbox of the service. */
export interface Example {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  readonly config: Config
  /** Opens Fillrate with the example's configuration, runs `what`, and closes it. */
  act<Result>(what: (app: App) => Promise<Result>): Promise<Result>
  /** Runs `fillrate check --json` in the example's folder, as its README describes. */
  check(): Promise<unknown>
  close(): Promise<void>
}

export async function openExample(name: string): Promise<Example> {
  const database = await createTestDatabase()
  await load(database, name)
  const sandbox = await startSandbox({ jobDelayMs: [10, 100] })
  const config = await readConfig(folderOf(name))
  return {
    database,
    sandbox,
    config,
    act: async (what) => {
      const environment = environmentFor(database.url, sandbox)
      const app = await openApp({ config, environment, log: pino({ level: 'silent' }) })
      try {
        return await what(app)
      } finally {
        await app.close()
      }
    },
    check: async () => {
      const env = {
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
        DATABASE_URL: database.url,
        FILLRATE_BASE_URL: sandbox.url,
        FILLRATE_API_KEY: sandbox.keys[0] ?? '',
        FILLRATE_WEBHOOK_SECRET: sandbox.webhookSecret,
      }
      const { stdout } = await promisify(execFile)(process.execPath, [programPath(), 'check', '--json'], {
        cwd: folderOf(name),
        env,
      })
      return JSON.parse(stdout) as unknown
    },
    close: async () => {
      await sandbox.close()
      await database.drop()
    },
  }
}

/** Creates the example's tables and rows, and the views of what to expect. */
async function load(database: TestDatabase, name: string): Promise<void> {
  const client = await database.pool.connect()
  const own = ['schema.sql', 'rows.sql'].map((file) => join(folderOf(name), file))
  const expected = ['expected.sql', `${name}.sql`].map((file) => join(import.meta.dirname, file))
  for (const file of [...own, ...expected]) await client.query(readFileSync(file, 'utf8'))
  // Settings that the files made on this session must not reach the tests.
  client.release(true)
}

/** Loads the configuration in a Node process of its own: under vitest a TypeScript file would go through Vite. */
export async function readConfig(folder: string, path?: string): Promise<Config> {
  const load = new URL('../../../src/config/load.ts', import.meta.url).href
  const options = { cwd: folder, ...(path !== undefined && { path }) }
  const script = `
    import { loadConfig } from ${JSON.stringify(load)}
    console.log(JSON.stringify(await loadConfig(${JSON.stringify(options)})))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  // The functions of a service are lost on the way; the examples use the built-in one.
  const config = JSON.parse(stdout) as Config
  return { ...config, services: config.services.map((one) => ({ ...one, adapter: BUILT_IN_SERVICE })) }
}
