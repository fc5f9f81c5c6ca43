import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { openDatabase } from '../../src/store/open.ts'
import { leaseLookups, releaseByToken } from '../../src/store/lookup-leases.ts'
import { freePort } from '../../test/support/free-port.ts'
import { onServer } from '../../test/support/server.ts'
import type { Task } from '../throughput/candidate.ts'
import { median } from '../throughput/table.ts'
import { BULK } from '../../test/support/bulk.ts'
import { createPeople, createSettledTable, insertPeople, LEADS_CONFIG, scaleConfig } from './settled-table.ts'

const MAIN = new URL('../../dist/src/main.js', import.meta.url).pathname
const REPORT_USAGE = new URL('report-usage.ts', import.meta.url).pathname

/** Wall time in milliseconds, and peak memory in bytes. */
interface CommandCost {
  readonly ms: number
  readonly peakBytes: number
}

export interface ScaleMeasurement {
  readonly rows: number
  /** The one statement that finds the rows to pick. */
  readonly floorMs: number
  readonly commands: Readonly<Record<CommandName, CommandCost>>
  readonly dashboardMs: number
  /** Rows a second of a first pass in bulk: over an empty database, and over rows that follow those of the table. */
  readonly firstRowsPerSecond: number
  readonly lastRowsPerSecond: number
  /** Of 1,000 claims of 32 lookups, commit included. */
  readonly claim: ClaimTimes
  /** Bytes on disk. */
  readonly tableBytes: number
  readonly fillrateBytes: number
}

export const COMMANDS = {
  idle: 'run, nothing to do',
  changed: 'run, 0.1% of the rows changed',
  plan: 'plan',
  status: 'status',
  planLimited: 'plan --limit 100 --budget 50, nothing enriched yet',
  runLimited: 'run --limit 100 --budget 50, nothing enriched yet',
} as const
export type CommandName = keyof typeof COMMANDS

export interface ScaleOptions {
  readonly rows: number
  readonly rounds: number
  /** Rows of the first passes in bulk. */
  readonly enriched: number
}

/** Makes the table in the server's own database, and measures. */
export async function measureScale(
  url: string,
  service: Task['service'],
  options: ScaleOptions,
): Promise<ScaleMeasurement> {
  await onServer(url, (client) => createSettledTable(client, url, service, options.rows))
  return measureTable(url, service, options)
}

/** Measures on a table that `createSettledTable` has made. */
async function measureTable(
  url: string,
  service: Task['service'],
  { rows, rounds, enriched }: ScaleOptions,
): Promise<ScaleMeasurement> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-scale-'))
  try {
    return await onServer(url, async (client) => {
      const log = (text: string): void => console.error(`${rows.toLocaleString('en')} rows: ${text}`)
      const run = await commandRunner(folder, url, service)
      const firstRowsPerSecond = await enrichFirst(client, folder, url, service, enriched)
      await insertPeople(client, rows + 1, rows + enriched)
      const last = await run('run', '--route', 'bulk', '--where', `t.id > ${rows}`)
      const lastRowsPerSecond = (1_000 * enriched) / last.ms
      log(
        `in bulk: the first ${enriched} ${firstRowsPerSecond.toFixed(0)} rows/s, the last ${lastRowsPerSecond.toFixed(0)}`,
      )
      const floor: number[] = []
      const costs: Record<CommandName, CommandCost[]> = {
        idle: [],
        changed: [],
        plan: [],
        status: [],
        planLimited: [],
        runLimited: [],
      }
      for (let round = 1; round <= rounds; round++) {
        floor.push(await timeOf(() => client.query(FLOOR)))
        costs.idle.push(await run('run'))
        costs.plan.push(await run('plan'))
        costs.status.push(await run('status'))
        const limited = ['--config', 'leads.json', '--limit', '100', '--budget', '50']
        costs.planLimited.push(await run('plan', ...limited))
        costs.runLimited.push(await run('run', ...limited))
        // New addresses, which the service has to be asked for.
        await client.query(
          `update crm.people set email = 'changed' || $1 || '.' || email, updated_at = now() where id % 1000 = $1`,
          [round],
        )
        costs.changed.push(await run('run'))
        log(
          `round ${round}: floor ${floor.at(-1)?.toFixed(0)} ms, ` +
            Object.entries(costs)
              .map(([name, all]) => `${name} ${all.at(-1)?.ms.toFixed(0)} ms`)
              .join(', '),
        )
      }
      return {
        rows,
        floorMs: median(floor),
        commands: Object.fromEntries(
          Object.entries(costs).map(([name, all]) => [
            name,
            { ms: median(all.map(({ ms }) => ms)), peakBytes: median(all.map(({ peakBytes }) => peakBytes)) },
          ]),
        ) as Record<CommandName, CommandCost>,
        dashboardMs: await dashboardMs(folder, url, service),
        firstRowsPerSecond,
        lastRowsPerSecond,
        claim: await claimTimes(client, url),
        ...(await sizes(client)),
      }
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Enriches a table of this many rows on a database of the same server that was empty. @returns rows a second */
async function enrichFirst(
  client: pg.Client,
  folder: string,
  url: string,
  service: Task['service'],
  rows: number,
): Promise<number> {
  const name = 'fillrate_scale_first'
  await client.query(`drop database if exists ${name}`)
  await client.query(`create database ${name}`)
  const emptyUrl = new URL(url)
  emptyUrl.pathname = name
  await onServer(emptyUrl.href, async (empty) => {
    await createPeople(empty)
    await insertPeople(empty, 1, rows)
    await empty.query('vacuum analyze')
  })
  const run = await commandRunner(folder, emptyUrl.href, service)
  await run('migrate')
  const { ms } = await run('run', '--route', 'bulk')
  await client.query(`drop database ${name}`)
  return (1_000 * rows) / ms
}

/** The rows that lack something and were not finished with the same inputs. */
const FLOOR = `
  select t.id from crm.people t left join fillrate.rows r on r.source = 'people' and r.key = t.id::text
   where (t.title is null or t.phone is null or t.seniority is null or t.nickname is null)
     and (r.key is null or r.due_at <= now()
          or r.input_hash is distinct from coalesce(hashtextextended(t.email collate "C", 1), 0))`

async function timeOf(act: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await act()
  return performance.now() - startedAt
}

const environment = (
  url: string,
  { url: baseUrl, keys, webhookSecret }: Task['service'],
): NodeJS.ProcessEnv => ({
  ...process.env,
  DATABASE_URL: url,
  FILLRATE_BASE_URL: baseUrl,
  FILLRATE_API_KEY: keys[0] ?? '',
  FILLRATE_WEBHOOK_SECRET: webhookSecret,
  LOG_LEVEL: 'warn',
})

/** Runs the built program as its user does, start-up included. */
async function commandRunner(
  folder: string,
  url: string,
  service: Task['service'],
): Promise<(...args: string[]) => Promise<CommandCost>> {
  await writeFile(join(folder, 'fillrate.config.json'), JSON.stringify(scaleConfig()))
  await writeFile(join(folder, 'leads.json'), JSON.stringify(LEADS_CONFIG))
  return async (...args) => {
    const startedAt = performance.now()
    const child = fork(MAIN, args, {
      cwd: folder,
      env: environment(url, service),
      execArgv: ['--import', REPORT_USAGE],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let peakBytes = 0
    let errors = ''
    child.on('message', (message: { readonly maxRss: number }) => {
      peakBytes = message.maxRss * 1024
    })
    child.stderr?.on('data', (text: Buffer) => {
      errors += text.toString()
    })
    const [code] = (await once(child, 'exit')) as [number | null]
    // 4: the budget is reached.
    if (code !== 0 && code !== 4) throw new Error(`fillrate ${args.join(' ')} exited with ${code}\n${errors}`)
    return { ms: performance.now() - startedAt, peakBytes }
  }
}

/** The dashboard's start page, the first time after the start of the process. */
async function dashboardMs(folder: string, url: string, service: Task['service']): Promise<number> {
  const port = await freePort()
  const child = spawn(process.execPath, [MAIN, 'serve', '--port', String(port)], {
    cwd: folder,
    env: environment(url, service),
    stdio: 'ignore',
  })
  try {
    const page = `http://127.0.0.1:${port}/`
    const deadline = performance.now() + 30_000
    while (
      !(await fetch(`${page}readyz`).then(
        (response) => response.ok,
        () => false,
      ))
    ) {
      if (performance.now() > deadline) throw new Error('fillrate serve is not ready after 30 s')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    return await timeOf(async () => (await fetch(page)).text())
  } finally {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
}

interface ClaimTimes {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** The queue's 10,000 lookups are claimed once before, and the statement's plans are made. */
const WARM_UP_CLAIMS = 320
const CLAIMS = 1_000
const CLAIMED = 32

/**
 * Times claims as they are in the middle of a run. The first nine of a connection are planned, and so is one of each four times as
 * many: three to four times as long, and a tenth of the first hundred. The commit waits for the disk, which answers in 0.2 ms
 * while nothing else is written, and in up to 150 ms while a checkpoint is: it comes before.
 */
async function claimTimes(client: pg.Client, url: string): Promise<ClaimTimes> {
  await client.query(
    `update fillrate.lookups set state = 'pending', resolved_at = null, run_id = 1 where id % 100 = 1 and id <= 1000000`,
  )
  await client.query('analyze fillrate.lookups')
  await client.query('checkpoint')
  const db = openDatabase({ url, max: 1 })
  const times: number[] = []
  for (let n = 0; n < WARM_UP_CLAIMS + CLAIMS; n++) {
    const token = crypto.randomUUID()
    let claimed = 0
    const ms = await timeOf(async () => {
      const lease = { run: 1, service: 0, limit: CLAIMED, token, leaseMs: 60_000, bulk: BULK }
      claimed = (await leaseLookups(db, lease)).length
    })
    // To claim nothing takes a quarter of the time, and was once what this measured.
    if (claimed !== CLAIMED) throw new Error(`claimed ${claimed} lookups, expected ${CLAIMED}`)
    if (n >= WARM_UP_CLAIMS) times.push(ms)
    await releaseByToken(db, token)
  }
  await db.destroy()
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => sorted[Math.ceil(share * CLAIMS) - 1] ?? Number.NaN
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

async function sizes(client: pg.Client): Promise<Pick<ScaleMeasurement, 'tableBytes' | 'fillrateBytes'>> {
  const { rows } = await client.query<{ table: number; fillrate: number }>(`
    select pg_total_relation_size('crm.people')::float8 as table,
           (select sum(pg_total_relation_size(c.oid))::float8 from pg_class c
             where c.relnamespace = 'fillrate'::regnamespace and c.relkind = 'r') as fillrate`)
  return { tableBytes: rows[0]?.table ?? 0, fillrateBytes: rows[0]?.fillrate ?? 0 }
}
