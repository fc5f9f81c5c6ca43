import pg from 'pg'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseConfig } from '../../src/config/load.ts'
import { setTriggers } from '../../src/actions/triggers.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { openSource } from '../../src/sources/source.ts'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { onServer } from '../../test/support/server.ts'
import { Processes } from './daemon-process.ts'
import { createCrm, crmConfig, insertRows } from './table.ts'

export interface Scenario {
  readonly name: string
  readonly rows: number
  /** Rows per second, each in its own transaction. */
  readonly rate: number
  /** How often the daemon is killed (SIGKILL) and restarted. */
  readonly kills: number
  /** Rows of a concurrent backfill, in its own process. */
  readonly backfill: number
  readonly latencyMs: number
}

export interface Latencies {
  readonly scenario: Scenario
  readonly missed: number
  /** From the commit of the insert to the commit of the write, in milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
  /** The most requests for one input. */
  readonly maxRequests: number
  /** Unfinished rows of the backfill when the last row was inserted. */
  readonly backfillLeft: number
}

const TIMEOUT_MS = 60_000

/** Measures one scenario on a new database. The server must track commit timestamps. */
export async function measureLatency(server: string, scenario: Scenario): Promise<Latencies> {
  const url = await prepare(server, scenario)
  const sandbox = await startSandbox({
    limit: null,
    latencyAfterMs: scenario.latencyMs,
    notFoundShare: 0,
    missingShare: 0,
  })
  const processes = await Processes.prepare(url, sandbox)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    let daemon = processes.start('start')
    await until(
      async () => (await count(client, `select count(*) from fillrate.leases where scope = 'follow'`)) > 0,
    )
    if (scenario.backfill > 0) {
      processes.start('run', '--backfill', '--route', 'sync', '--budget', 'unlimited')
      await until(async () => (await count(client, `select count(*) from fillrate.rows`)) > 0)
    }
    const killAt = new Set(
      Array.from({ length: scenario.kills }, (_, n) =>
        Math.round(((n + 1) * scenario.rows) / (scenario.kills + 1)),
      ),
    )
    const inserted: { id: string; xid: string }[] = []
    const startedAt = performance.now()
    for (let n = 0; n < scenario.rows; n++) {
      await sleep(Math.max(0, startedAt + (n * 1_000) / scenario.rate - performance.now()))
      const { rows } = await client.query<{ id: string; xid: string }>(
        `insert into crm.contacts (email, first_name) values ($1, 'Ada')
         returning id, pg_current_xact_id()::text as xid`,
        [`sync${n}@example.com`],
      )
      inserted.push(...rows)
      if (killAt.has(n)) {
        await processes.end(daemon, 'SIGKILL')
        daemon = processes.start('start')
      }
    }
    const backfillLeft = await count(
      client,
      `select count(*) from crm.contacts where enriched_at is null and email like 'before%'`,
    )
    const open = `select count(*) from crm.contacts where enriched_at is null and email like 'sync%'`
    await until(async () => (await count(client, open)) === 0, TIMEOUT_MS).catch(() => {})
    const missed = await count(client, open)
    const times = await latencies(client, inserted)
    const at = (share: number): number =>
      times[Math.min(times.length - 1, Math.ceil(share * times.length) - 1)] ?? Number.NaN
    await processes.end(daemon, 'SIGTERM')
    return {
      scenario,
      missed,
      p50: at(0.5),
      p95: at(0.95),
      p99: at(0.99),
      max: at(1),
      maxRequests: sandbox.stats({ inputs: true }).inputs.max_requested,
      backfillLeft,
    }
  } finally {
    await processes.stop()
    await client.end()
    await sandbox.close()
  }
}

/** Times from commit to commit, as recorded by Postgres. */
async function latencies(
  client: pg.Client,
  inserted: readonly { readonly id: string; readonly xid: string }[],
): Promise<number[]> {
  const { rows } = await client.query<{ ms: number }>(
    `select 1000 * extract(epoch from pg_xact_commit_timestamp(c.xmin) - pg_xact_commit_timestamp(i.xid::xid))::float8 as ms
       from unnest($1::bigint[], $2::text[]) as i (id, xid) join crm.contacts c on c.id = i.id
      where c.enriched_at is not null order by ms`,
    [inserted.map((one) => one.id), inserted.map((one) => one.xid)],
  )
  return rows.map((row) => row.ms)
}

let databases = 0

async function prepare(server: string, scenario: Scenario): Promise<string> {
  const name = `sync_${++databases}`
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href
  await onServer(server, (client) => client.query(`create database ${name}`))
  const db = openDatabase({ url, max: 1 })
  await migrate(db)
  await onServer(url, async (client) => {
    await createCrm(client, 0, true)
    await insertRows(client, scenario.backfill, 'before')
    await client.query('vacuum analyze crm.contacts')
  })
  const { contacts } = parseConfig(crmConfig, null).sources
  if (!contacts) throw new Error('the configuration has no source contacts')
  await setTriggers(db, await openSource(db, contacts), 'install')
  await db.destroy()
  return url
}

const count = async (client: pg.Client, text: string): Promise<number> =>
  Number((await client.query<{ count: string }>(text)).rows[0]?.count)

async function until(condition: () => Promise<boolean>, timeoutMs = 30_000): Promise<void> {
  const end = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error('the condition was not met in time')
    await sleep(100)
  }
}
