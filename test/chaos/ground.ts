import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import { cloneDatabase, type TestDatabase } from '../support/clone.ts'
import { createCommandLine, type Ended, type Started } from '../support/cli.ts'
import { createCrm, withAccounts } from '../support/crm.ts'
import { environmentFor, runRequest } from '../support/environment.ts'
import { freePort } from '../support/free-port.ts'
import { onServer } from '../support/server.ts'
import { snapshot, type Snapshot } from './damage.ts'

/** Emails go in jobs, profiles and companies singly: every step has something to do. */
const config = {
  ...withAccounts,
  sources: {
    ...withAccounts.sources,
    contacts: {
      ...withAccounts.sources.contacts,
      inputs: { email: 't.email', linkedin_url: 't.linkedin' },
    },
  },
  bulk: { minimum: 20, grace: '0s' },
  service: { concurrency: 8 },
}
export const CONCURRENCY = config.service.concurrency
const SANDBOX = {
  latencyAfterMs: [1, 5] as const,
  jobDelayMs: [5, 30] as const,
  retryDelaysMs: Array.from({ length: 400 }, () => 50),
}
/** Has a process look for the point at which it is to die. */
export const PRELOADED = { NODE_OPTIONS: `--import=${new URL('failpoint.ts', import.meta.url).href}` }

/** Where the database and the service are, and what a run without any fault makes of them. */
export interface Ground {
  readonly server: string
  /** The database that each trial clones. */
  readonly prepared: string
  readonly expected: Snapshot
  /** Every point at which a run can be killed, in the order in which it came to them. */
  readonly points: readonly string[]
  remove(): Promise<void>
}

/** Prepares a CRM, runs once without faults, and notes each point that the run passes. */
export async function prepareGround(server: string): Promise<Ground> {
  const database = await cloneDatabase(server)
  await createCrm(database.pool, 60, 12)
  await database.pool.query(
    `insert into crm.contacts (linkedin) select 'https://www.linkedin.com/in/chaos-' || n from generate_series(1, 12) n`,
  )
  // Its name is its own: two test files prepare at the same moment.
  const prepared = new URL(database.url).pathname.slice(1)
  await database.db.destroy()
  await database.pool.end()
  const remove = async (): Promise<void> => {
    await onServer(server, (client) => client.query(`drop database if exists ${prepared}`))
  }
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-chaos-'))
  const record = join(folder, 'points')
  const trial = await onTrial({ server, prepared }, { variables: { ...PRELOADED, CHAOS_RECORD: record } })
  try {
    const { code, stderr } = trial.ended
    if (code !== 0) throw new Error(`the run without faults ended with ${code}: ${stderr}`)
    return {
      server,
      prepared,
      expected: await snapshot(trial.database.pool),
      points: (await readFile(record, 'utf8')).trim().split('\n'),
      remove,
    }
  } catch (error) {
    await remove()
    throw error
  } finally {
    await trial.close()
    await rm(folder, { recursive: true, force: true })
  }
}

export interface Trial {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  readonly port: number
  readonly ended: Ended
  close(): Promise<void>
}

export interface TrialOptions {
  /** More of its environment. */
  readonly variables?: Record<string, string>
  readonly sandbox?: Partial<SandboxOptions>
  readonly prepare?: (pool: pg.Pool) => Promise<void>
  /** Another way to the same database. */
  readonly through?: (url: URL) => string
  /** The run is one of this process, with these options of the application. */
  readonly inside?: { readonly silentAfterMs: number }
  /** Done before the database is dropped. */
  readonly cleanUp?: () => Promise<void>
  /** Hurts something while the process runs. The process is waited for when it is done. */
  readonly during?: (
    trial: Omit<Trial, 'ended' | 'close'> & { readonly child: Started['child'] | null },
  ) => Promise<void>
}

/** A run in a process of its own, on a database and a service of its own. */
export async function onTrial(
  { server, prepared }: Pick<Ground, 'server' | 'prepared'>,
  options: TrialOptions = {},
): Promise<Trial> {
  const database = await cloneDatabase(server, prepared)
  await options.prepare?.(database.pool)
  const sandbox = await startSandbox({ ...SANDBOX, ...options.sandbox })
  const url = options.through?.(new URL(database.url)) ?? database.url
  const cli = await createCommandLine(url, sandbox, config)
  const port = await freePort()
  const trial = { database, sandbox, port }
  const started = options.inside
    ? { child: null, ended: runInside({ ...trial, url }, options.inside.silentAfterMs) }
    : cli.startWith({ FILLRATE_PORT: String(port), ...options.variables }, 'run', '--json', '--wait', '30s')
  await options.during?.({ ...trial, child: started.child })
  const ended = await started.ended
  await cli.remove()
  return {
    database,
    sandbox,
    port,
    ended,
    close: async () => {
      await sandbox.close()
      await options.cleanUp?.()
      await database.drop()
    },
  }
}

/** The leases of the dead run out: the same as waiting for it, without the waiting. */
export async function passTime({ pool }: TestDatabase): Promise<void> {
  for (const table of ['runs', 'lookups', 'jobs', 'leases'])
    await pool.query(
      `update fillrate.${table} set leased_until = now() - interval '1 ms' where leased_until is not null`,
    )
}

/** What was never posted, or never delivered, is given up at its deadline, hours later: that time passes too. */
export async function passDeadlines({ pool }: TestDatabase): Promise<void> {
  await pool.query(
    `update fillrate.jobs set deadline_at = now() - interval '1 s' where state in ('in_doubt', 'submitted')`,
  )
}

async function runInside(
  { url, sandbox, port }: Pick<Trial, 'sandbox' | 'port'> & { readonly url: string },
  silentAfterMs: number,
): Promise<Ended> {
  const app = await openApp({
    config: parseConfig(config, null),
    environment: { ...environmentFor(url, sandbox), port },
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2)),
    silentAfterMs,
  })
  try {
    const { status } = await app.run(runRequest({ waitMs: 30_000 }))
    return { code: status === 'completed' ? 0 : 1, stdout: '', stderr: '' }
  } catch (error) {
    return { code: 1, stdout: '', stderr: String(error) }
  } finally {
    await app.close()
  }
}

/** Another process on the same database and the same address. */
export async function finish(
  { database, sandbox, port }: Pick<Trial, 'database' | 'sandbox' | 'port'>,
  waitMs: number,
): Promise<void> {
  const app = await openApp({
    config: parseConfig(config, null),
    environment: { ...environmentFor(database.url, sandbox), port },
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2)),
  })
  try {
    await app.run(runRequest({ waitMs }))
  } finally {
    await app.close()
  }
}
