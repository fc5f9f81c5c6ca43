import pino from 'pino'
import type { RunReport } from '../../src/domain/report/run.ts'
import { openApp, type App, type AppOptions, type RunRequest } from '../../src/app.ts'
import type { Config } from '../../src/config/config.ts'
import type { Environment } from '../../src/config/environment.ts'
import { parseConfig } from '../../src/config/load.ts'
import type { RemapReport } from '../../src/actions/remap.ts'
import type { UndoReport } from '../../src/actions/undo/undo.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import { createTestDatabase, shareInTests, type TestDatabase } from './database.ts'
import { environmentFor, environmentForServices, runRequest } from './environment.ts'

export { environmentFor, runRequest } from './environment.ts'

/** What an instance has in place of the harness's own. */
interface Changes extends Pick<AppOptions, 'state'> {
  readonly config?: object
  readonly environment?: Partial<Environment>
}

/** Fillrate with its own database and sandbox, as a user runs it, but in this process. */
export interface Harness extends Pick<TestDatabase, 'query' | 'scalar' | 'count' | 'checksum'> {
  readonly database: TestDatabase
  /** The service; of several the first. */
  readonly sandbox: Sandbox
  /** Of several services each, by their names in the configuration. */
  readonly sandboxes: Readonly<Record<string, Sandbox>>
  readonly config: Config
  readonly environment: Environment
  /** Opens another instance on the same database, in place of another process. */
  open(changes?: Changes): Promise<App>
  /** Opens, runs, closes. */
  run(request?: Partial<RunRequest>, changes?: Changes): Promise<RunReport>
  /** Opens, undoes, closes. */
  undo(run: number, options?: { readonly dryRun?: boolean }): Promise<UndoReport>
  /** Opens, with a changed configuration if one is given, writes stored records again, closes. */
  remap(
    source: string,
    options?: { readonly dryRun?: boolean; readonly config?: object },
  ): Promise<RemapReport>
  /** The calls that all sandboxes have received, refused ones included. */
  calls(): number
  close(): Promise<void>
}

/** What a harness is started with. */
interface HarnessOptions {
  readonly config: object
  readonly sandbox?: Partial<SandboxOptions>
  /** A sandbox for each service of the configuration, in their order. */
  readonly services?: Readonly<Record<string, Partial<SandboxOptions>>>
  readonly prepare: (database: TestDatabase) => Promise<void>
}

const endHarness = (harness: Harness): Promise<void> => harness.close()

/** A harness that a test file shares. */
export const useHarness = (options: HarnessOptions): Harness =>
  shareInTests(() => startHarness(options), endHarness)

/** A harness for each test of a file. */
export const useFreshHarness = (options: HarnessOptions): Harness =>
  shareInTests(() => startHarness(options), endHarness, true)

export async function startHarness(options: HarnessOptions): Promise<Harness> {
  const database = await createTestDatabase()
  await options.prepare(database)
  const start = (given?: Partial<SandboxOptions>): Promise<Sandbox> =>
    startSandbox({ jobDelayMs: [10, 100], ...given })
  const sandboxes: Record<string, Sandbox> = {}
  for (const [name, given] of Object.entries(options.services ?? {})) sandboxes[name] = await start(given)
  const named = Object.values(sandboxes)
  const sandbox = named[0] ?? (await start(options.sandbox))
  const all = named.length === 0 ? [sandbox] : named
  const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2))
  const environment =
    named.length === 0
      ? environmentFor(database.url, sandbox)
      : environmentForServices(database.url, sandboxes)
  const config = parseConfig(options.config, null)
  const opened = new Set<App>()

  const open: Harness['open'] = async (changes = {}) => {
    const app = await openApp({
      config: changes.config ? parseConfig(changes.config, null) : config,
      environment: { ...environment, ...changes.environment },
      log,
      ...(changes.state && { state: changes.state }),
    })
    opened.add(app)
    return app
  }
  const withApp = async <Result>(
    act: (app: App) => Promise<Result>,
    changes: Changes = {},
  ): Promise<Result> => {
    const app = await open(changes)
    try {
      return await act(app)
    } finally {
      opened.delete(app)
      await app.close()
    }
  }
  return {
    database,
    sandbox,
    sandboxes,
    config,
    environment,
    open,
    run: (request, changes) => withApp((app) => app.run(runRequest(request)), changes),
    undo: (run, { dryRun = false } = {}) =>
      withApp((app) => app.undo({ run, dryRun, signal: new AbortController().signal })),
    remap: (source, { dryRun = false, ...changes } = {}) =>
      withApp(
        (app) => app.remap({ source, dryRun, sample: 10, signal: new AbortController().signal }),
        changes,
      ),
    query: database.query,
    scalar: database.scalar,
    count: database.count,
    checksum: database.checksum,
    calls: () =>
      all.reduce((sum, one) => {
        const { accepted, refused } = one.stats().calls
        return sum + accepted + refused
      }, 0),
    close: async () => {
      await Promise.all([...opened].map((app) => app.close()))
      for (const one of all) await one.close()
      await database.drop()
    },
  }
}

/** The sum of all row states of a report: equal to `picked`. */
export function stateSum(report: RunReport): number {
  const { picked: _, ...states } = report.rows
  return Object.values(states).reduce((sum, count) => sum + count, 0)
}
