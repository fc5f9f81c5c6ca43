import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import { cloneDatabase, type TestDatabase } from '../support/clone.ts'
import { createCommandLine, type Ended } from '../support/cli.ts'
import { createCrm, withAccounts } from '../support/crm.ts'
import { environmentFor, runRequest } from '../support/environment.ts'
import { onServer } from '../support/server.ts'
import { compare, snapshot, type Damage, type Snapshot } from './damage.ts'

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
  bulk: { minimum: 20 },
  service: { concurrency: 8 },
}
const CONCURRENCY = config.service.concurrency
const PREPARED = 'fillrate_chaos'
const SANDBOX = {
  latencyAfterMs: [1, 5] as const,
  jobDelayMs: [5, 30] as const,
  retryDelaysMs: Array.from({ length: 400 }, () => 50),
}
const PRELOAD = new URL('failpoint.ts', import.meta.url).href

/** Where the database and the service are, and what a run without any fault makes of them. */
export interface Ground {
  readonly server: string
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
  const prepared = new URL(database.url).pathname.slice(1)
  await database.db.destroy()
  await database.pool.end()
  await onServer(server, async (client) => {
    await client.query(`drop database if exists ${PREPARED}`)
    await client.query(`alter database ${prepared} rename to ${PREPARED}`)
  })
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-chaos-'))
  const record = join(folder, 'points')
  const trial = await onTrial(server, { CHAOS_RECORD: record })
  try {
    const { code, stderr } = trial.ended
    if (code !== 0) throw new Error(`the run without faults ended with ${code}: ${stderr}`)
    return {
      server,
      expected: await snapshot(trial.database.pool),
      points: (await readFile(record, 'utf8')).trim().split('\n'),
      remove: () =>
        onServer(server, (client) => client.query(`drop database if exists ${PREPARED}`)).then(() => {}),
    }
  } finally {
    await trial.close()
    await rm(folder, { recursive: true, force: true })
  }
}

export interface Killed extends Damage {
  readonly point: string
  /** The process came to the point and died there. */
  readonly made: boolean
  /** Calls whose answers were lost, as the tables count them. */
  readonly inDoubt: number
}

/** Kills a run at a point with SIGKILL, lets another finish, and looks at what is there then. */
export async function killAt(ground: Ground, point: string, nth = 1): Promise<Killed> {
  const trial = await onTrial(ground.server, { CHAOS_KILL_AT: point, CHAOS_KILL_NTH: String(nth) })
  try {
    const made = trial.ended.code === null
    if (made) await passTime(trial.database)
    await finish(trial, 2_000)
    // What was never posted is given up at its deadline, hours later: that time passes now.
    await trial.database.pool.query(
      `update fillrate.jobs set deadline_at = now() - interval '1 s' where state in ('in_doubt', 'submitted')`,
    )
    await finish(trial, 30_000)
    const damage = await compare(trial.database.pool, trial.sandbox, ground.expected, CONCURRENCY)
    return { point, made, ...damage }
  } finally {
    await trial.close()
  }
}

interface Trial {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  readonly port: number
  readonly ended: Ended
  close(): Promise<void>
}

async function onTrial(server: string, variables: Record<string, string>): Promise<Trial> {
  const database = await cloneDatabase(server, PREPARED)
  const sandbox = await startSandbox(SANDBOX)
  const cli = await createCommandLine(database.url, sandbox, config)
  const port = await freePort()
  const options = { FILLRATE_PORT: String(port), NODE_OPTIONS: `--import=${PRELOAD}`, ...variables }
  const ended = await cli.startWith(options, 'run', '--json', '--wait', '30s').ended
  await cli.remove()
  return {
    database,
    sandbox,
    port,
    ended,
    close: async () => {
      await sandbox.close()
      await database.drop()
    },
  }
}

/** The leases of the dead run out: the same as waiting for it, without the waiting. */
async function passTime({ pool }: TestDatabase): Promise<void> {
  for (const table of ['runs', 'lookups', 'jobs', 'callers'])
    await pool.query(
      `update fillrate.${table} set leased_until = now() - interval '1 ms' where leased_until is not null`,
    )
}

/** Another process on the same database and the same address. */
async function finish({ database, sandbox, port }: Trial, waitMs: number): Promise<void> {
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

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
