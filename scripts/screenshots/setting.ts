import pg from 'pg'
import pino from 'pino'
import type { App, RunRequest } from '../../src/app.ts'
import { openApp } from '../../src/app.ts'
import type { Config } from '../../src/config/config.ts'
import type { DashboardToken } from '../../src/config/env-values.ts'
import { type DemoSettings, FULL_DEMO, startDemoService } from '../../src/demo/settings.ts'
import type { RunReport } from '../../src/runs/report.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { WakeSignal } from '../../src/util/wake-signal.ts'
import { environmentFor, runRequest } from '../../test/support/environment.ts'
import { onServer } from '../../test/support/server.ts'

/** Who may sign in: the dashboard of a team has named tokens. */
export const OPERATOR: DashboardToken = { name: 'anna', role: 'operator', secret: 'a-token-of-the-pictures' }
export const READER: DashboardToken = { name: 'grafana', role: 'reader', secret: 'another-that-only-reads' }

/** Fillrate on a database and a service of its own, with its dashboard. */
export interface Setting {
  /** Address of the dashboard. */
  readonly at: string
  readonly app: App
  readonly client: pg.Client
  /** The first one. */
  readonly service: Sandbox
  run(request?: Partial<RunRequest>): Promise<RunReport>
  /** Starts a daemon beside the dashboard. */
  startDaemon(): Promise<void>
  close(): Promise<void>
}

export async function openSetting(
  server: string,
  name: string,
  options: {
    readonly config: Config
    readonly settings?: Partial<DemoSettings>
    /** Of a configuration with several services: what each knows, by name. */
    readonly services?: Readonly<Record<string, Partial<SandboxOptions>>>
    /** Creates the CRM. */
    readonly prepare: (client: pg.Client) => Promise<unknown>
  },
): Promise<Setting> {
  await onServer(server, (client) => client.query(`create database ${name}`))
  const url = new URL(server)
  url.pathname = `/${name}`
  const client = new pg.Client({ connectionString: url.href })
  // A picture of a dashboard without Postgres stops the server.
  client.on('error', () => {})
  await client.connect()
  await options.prepare(client)
  const db = openDatabase({ url: url.href, max: 1 })
  await migrate(db)
  await db.destroy()
  const named: [name: string, service: Sandbox][] = []
  for (const [one, known] of Object.entries(options.services ?? {}))
    named.push([one, await startSandbox(known)])
  const service = named[0]?.[1] ?? (await startDemoService({ ...FULL_DEMO, ...options.settings }))
  const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' })
  const environment = {
    ...environmentFor(url.href, service),
    services: Object.fromEntries(
      named.map(([one, sandbox]) => [`FILLRATE_${one.toUpperCase()}_`, environmentFor(url.href, sandbox)]),
    ),
    name: 'production',
    maxConnections: 8,
    dashboardTokens: [OPERATOR, READER],
  }
  const open = () => openApp({ config: options.config, environment, log })
  const app = await open()
  const opened = [app]
  const stop = new AbortController()
  const listening = Promise.withResolvers<string>()
  const work = [app.serve({ signal: stop.signal, onListening: (at) => listening.resolve(at ?? '') })]
  return {
    at: await listening.promise,
    app,
    client,
    service,
    // As a process of its own does.
    run: async (request) => {
      const single = await open()
      try {
        return await single.run(runRequest({ signal: stop.signal, ...request }))
      } finally {
        await single.close()
      }
    },
    startDaemon: async () => {
      const daemon = await open()
      opened.push(daemon)
      const receiver = { publicUrl: await listening.promise }
      work.push(daemon.start({ signal: stop.signal, receiver, deliveries: new WakeSignal() }))
    },
    close: async () => {
      stop.abort()
      await Promise.allSettled(work)
      await Promise.allSettled(opened.map((one) => one.close()))
      await client.end().catch(() => {})
      for (const [, sandbox] of named) await sandbox.close()
      if (named.length === 0) await service.close()
    },
  }
}
