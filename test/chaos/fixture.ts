import type pg from 'pg'
import pino from 'pino'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openApp, type App, type AppOptions } from '../../src/app.ts'
import { parseConfig } from '../../src/config/load.ts'
import type { SourceMapping } from '../../src/domain/mapping.ts'
import { markAllDeleted } from '../../src/pipeline/deleted-rows.ts'
import type { Deps } from '../../src/pipeline/deps.ts'
import { openSource } from '../../src/sources/source.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import { cloneDatabase, type TestDatabase } from '../support/clone.ts'
import { createCommandLine, type CommandLine, type Ended, type Started } from '../support/cli.ts'
import { environmentFor, environmentForServices, runRequest } from '../support/environment.ts'
import { freePort } from '../support/free-port.ts'
import { onServer } from '../support/server.ts'
import { takeSnapshot, type Snapshot } from './invariants.ts'
import { ONE_SERVICE, type Scenario } from './scenario.ts'

const SANDBOX = {
  latencyAfterMs: [1, 5] as const,
  jobDelayMs: [5, 30] as const,
  retryDelaysMs: Array.from({ length: 400 }, () => 50),
}
/** Loads the failpoints into a process. */
export const PRELOADED = { NODE_OPTIONS: `--import=${new URL('failpoint.ts', import.meta.url).href}` }

/** A prepared database, and what a run without faults makes of it. */
export interface ChaosFixture {
  readonly scenario: Scenario
  readonly server: string
  /** The database that each trial clones. */
  readonly prepared: string
  /** The same after a run without faults. */
  readonly finished: string
  readonly expected: Snapshot
  /** Every point at which a run can be killed, in the order of a run without faults. */
  readonly points: readonly KillPoint[]
  remove(): Promise<void>
}

/** A step of a run, with how often it is passed without faults. */
export interface KillPoint {
  readonly name: string
  readonly times: number
}

/** Prepares a CRM, runs once without faults, and records each point that the run passes. */
export async function prepareFixture(server: string, scenario = ONE_SERVICE): Promise<ChaosFixture> {
  const database = await cloneDatabase(server)
  await scenario.prepare(database.pool)
  await liveEarlierLives(database, scenario)
  await database.end()
  // The names are unique, because two test files may prepare at the same time.
  const prepared = databaseName(database)
  const { trial, points } = await recordPoints({ server, prepared, scenario })
  const expected = await takeSnapshot(trial.database.pool)
  await trial.close({ keepsDatabase: true })
  const finished = databaseName(trial.database)
  const remove = (): Promise<void> =>
    onServer(server, async (client) => {
      for (const name of [prepared, finished]) await client.query(`drop database if exists ${name}`)
    })
  return { scenario, server, prepared, finished, expected, points, remove }
}

export const databaseName = ({ url }: Pick<TestDatabase, 'url'>): string => new URL(url).pathname.slice(1)

/** What a trial needs of its fixture. */
export type TrialFixture = Pick<ChaosFixture, 'scenario' | 'server' | 'prepared'>

/** Runs once without faults, and records each point that the process passes. */
export async function recordPoints(
  fixture: TrialFixture,
  options: TrialOptions = {},
): Promise<{ readonly trial: Trial; readonly points: readonly KillPoint[] }> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-chaos-'))
  const record = join(folder, 'points')
  const trial = await runTrial(fixture, { ...options, variables: { ...PRELOADED, CHAOS_RECORD: record } })
  const { code, stderr } = trial.ended
  if (code !== 0) throw new Error(`without faults it exited with ${code}: ${stderr}`)
  const passed = Map.groupBy((await readFile(record, 'utf8')).trim().split('\n'), (name) => name)
  const points = [...passed].map(([name, { length }]) => ({ name, times: length }))
  await rm(folder, { recursive: true, force: true })
  return { trial, points }
}

/**
 * Some rows were enriched before, and changed since: addresses, keys that are used again, rows that are deleted, and one that is
 * there again. So the run that is killed claims rows that it knows, takes cells over from earlier inputs, and looks for deletions.
 */
async function liveEarlierLives(database: TestDatabase, scenario: Scenario): Promise<void> {
  const { pool, db } = database
  const services = await startServices(scenario)
  try {
    await finishRun({ database, scenario, ...services, port: await freePort() }, 30_000, 't.id % 9 = 1')
  } finally {
    await services.closeServices()
  }
  await pool.query('delete from crm.contacts where id in (1, 10)')
  const source = await openSource(db, parseConfig(scenario.config, null).sources['contacts'] as SourceMapping)
  const policy = { sourceTimeoutMs: 60_000 } as Deps['policy']
  await markAllDeleted({ db, policy }, source, new AbortController().signal)
  await pool.query(`
    update fillrate.rows set deleted_at = deleted_at - interval '2 hours';
    insert into crm.contacts (id, email, title) overriding system value values (10, 'again@example.com', 'typed');
    delete from crm.contacts where id in (19, 28);
    insert into crm.contacts (id, email) overriding system value values (28, 'other@example.com');
    update crm.contacts set email = 'moved' || id || '@example.com', phone = null where id in (37, 46, 55);
    update crm.contacts set email = null, linkedin = null where id = 64;
    -- What the trial is billed and has written counts alone.
    truncate fillrate.changes, fillrate.spend`)
}

/** The services of a trial. */
interface Services {
  /** The only one, or the first of several. */
  readonly sandbox: Sandbox
  /** By their names; one alone has none. */
  readonly sandboxes: Readonly<Record<string, Sandbox>>
}

/** Addresses of services so far. */
const usedUrls = new Set<string>()

/**
 * A service where none was before: a service is known by its address, so another one there would be taken for that of the run which
 * prepared the database, and what that has answered would count as its answers.
 */
async function startElsewhere(options: Partial<SandboxOptions>): Promise<Sandbox> {
  for (;;) {
    const sandbox = await startSandbox(options)
    if (!usedUrls.has(sandbox.url)) {
      usedUrls.add(sandbox.url)
      return sandbox
    }
    await sandbox.close()
  }
}

async function startServices(
  { services }: Scenario,
  options: Partial<SandboxOptions> = {},
): Promise<Services & { closeServices(): Promise<void> }> {
  const sandboxes: Record<string, Sandbox> = {}
  for (const [name, played] of Object.entries(services ?? { '': {} }))
    sandboxes[name] = await startElsewhere({ ...SANDBOX, ...played, ...options })
  const all = Object.values(sandboxes)
  const closeServices = async (): Promise<void> => {
    for (const one of all) await one.close()
  }
  return { sandbox: all[0] as Sandbox, sandboxes, closeServices }
}

export interface Trial extends Services {
  readonly scenario: Scenario
  readonly database: TestDatabase
  readonly port: number
  readonly ended: Ended
  /** The folder in which the process ran. */
  readonly cli: CommandLine
  close(options?: { readonly keepsDatabase: boolean }): Promise<void>
}

/** What another process needs to run in a trial too. */
type RunningTrial = Services & Pick<Trial, 'scenario' | 'database' | 'port'>

export interface TrialOptions {
  /** By default a run. */
  readonly command?: readonly string[]
  readonly config?: Scenario['config']
  /** Added to the environment of the process. */
  readonly variables?: Record<string, string>
  readonly sandbox?: Partial<SandboxOptions>
  readonly prepare?: (pool: pg.Pool, sandboxes: Services['sandboxes']) => Promise<void>
  /** Returns another URL of the same database, through a proxy. */
  readonly through?: (url: URL) => string
  /** Runs in this process, with these options of the application. */
  readonly inProcess?: { readonly silentAfterMs: number }
  /** Called before the database is dropped. */
  readonly cleanUp?: () => Promise<void>
  /** Injects the fault while the process runs. Afterwards the process is awaited. */
  readonly during?: (trial: RunningTrial & { readonly child: Started['child'] | null }) => Promise<void>
}

/** Runs Fillrate in a process of its own, with its own database and services. */
export async function runTrial(
  { scenario, server, prepared }: TrialFixture,
  options: TrialOptions = {},
): Promise<Trial> {
  const database = await cloneDatabase(server, prepared)
  const { closeServices, ...services } = await startServices(scenario, options.sandbox)
  const { sandbox, sandboxes } = services
  await options.prepare?.(database.pool, sandboxes)
  const url = options.through?.(new URL(database.url)) ?? database.url
  const reached = scenario.services === null ? sandbox : sandboxes
  const cli = await createCommandLine(url, reached, options.config ?? scenario.config)
  const trial = { scenario, database, ...services, port: await freePort() }
  const started = options.inProcess
    ? { child: null, ended: runInProcess(trial, url, options.inProcess.silentAfterMs) }
    : cli.startWith(
        { FILLRATE_PORT: String(trial.port), ...options.variables },
        ...(options.command ?? ['run', '--json', '--wait', '30s']),
      )
  await options.during?.({ ...trial, child: started.child })
  return {
    ...trial,
    cli,
    ended: await started.ended,
    close: async ({ keepsDatabase } = { keepsDatabase: false }) => {
      await cli.remove()
      await closeServices()
      await options.cleanUp?.()
      await (keepsDatabase ? database.end() : database.drop())
    },
  }
}

/** Expires all leases, as time would. */
export async function expireLeases({ pool }: TestDatabase): Promise<void> {
  for (const table of ['runs', 'lookups', 'jobs', 'leases'])
    await pool.query(
      `update fillrate.${table} set leased_until = now() - interval '1 ms' where leased_until is not null`,
    )
}

/** Moves the deadlines of open jobs into the past, which would come hours later. A poll that is due may find results all the same: none is. */
export async function expireDeadlines({ pool }: TestDatabase): Promise<void> {
  await pool.query(
    `update fillrate.jobs set deadline_at = now() - interval '1 s', poll_at = null where state in ('in_doubt', 'submitted')`,
  )
}

const openTrial = (
  { scenario, sandbox, sandboxes, port }: Omit<RunningTrial, 'database'>,
  url: string,
  options: Partial<AppOptions> = {},
): Promise<App> => {
  const environment =
    scenario.services === null ? environmentFor(url, sandbox) : environmentForServices(url, sandboxes)
  return openApp({
    config: parseConfig(scenario.config, null),
    environment: { ...environment, port },
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2)),
    ...options,
  })
}

async function runInProcess(trial: RunningTrial, url: string, silentAfterMs: number): Promise<Ended> {
  const app = await openTrial(trial, url, { silentAfterMs })
  try {
    const { status } = await app.run(runRequest({ waitMs: 30_000 }))
    return { code: status === 'completed' ? 0 : 1, stdout: '', stderr: '' }
  } catch (error) {
    return { code: 1, stdout: '', stderr: String(error) }
  } finally {
    await app.close()
  }
}

/** A second process, on the same database and port, finishes what is left. */
export async function finishRun(
  trial: RunningTrial,
  waitMs: number,
  where: string | null = null,
): Promise<void> {
  const app = await openTrial(trial, trial.database.url)
  try {
    await app.run(runRequest({ waitMs, where }))
  } finally {
    await app.close()
  }
}
