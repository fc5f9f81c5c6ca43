import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/actions/status.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import type { ConditionKind } from '../../../src/domain/condition.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { type CrashableServer, startCrashableServer } from '../../chaos/crashable-server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { freePort } from '../../support/free-port.ts'
import { onServer } from '../../support/server.ts'
import { listRepeatedLines, OperatorView, watchProcess } from '../../support/operator-view.ts'

// The conditions of an hour on call, each begun and ended for real under the built program: two daemons and a receiver, three
// sources of which two are followed, a schedule and two notification targets. Each is one condition with one end on every
// channel, and at the end the money is what the service has counted. The measured seconds are written as a table.

const canMount = process.getuid?.() === 0 && spawnSync('mount', ['--version']).status === 0
const LATENCY_MS = 100
const SLOTS = 4
/** As services do, for longer than Postgres is away: what the sandbox gives up is awaited until its deadline. */
const RETRY_DELAYS_MS = Array.from({ length: 300 }, () => 1_000)
/** As many connections as users have: otherwise pages wait for the work. */
const SETTINGS = { LOG_LEVEL: 'info', FILLRATE_MAX_CONNECTIONS: undefined }
const hour = (new Date().getUTCHours() + 12) % 24
/** Far from now: each fault meets a scheduled run that the test starts. */
const nightly = { cron: `0 ${hour} * * *`, timezone: 'UTC', sources: ['contacts', 'accounts', 'leads'] }
const { contacts, accounts } = withAccounts.sources

let server: CrashableServer
let pool: pg.Pool
let sandbox: Sandbox
let cli: CommandLine
let view: OperatorView
let disk: string
/** Of the two daemons and the receiver, after a restart too: deliveries go to the address that the service was given. */
let ports: number[]
let traffic: NodeJS.Timeout
let leads = 0
const CHANNELS = ['page', 'status', 'metrics', 'log', 'notifications']
const table: string[][] = []

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  (await pool.query<Record<string, unknown>>(text, values)).rows
const run = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await cli.run(...args)
  expect({ code, stderr }).toMatchObject({ code: 0 })
  return stdout
}

async function startProcesses(environment: Record<string, string> = {}): Promise<void> {
  const started = ['start', 'start', 'serve'].map((command, n) =>
    watchProcess(cli.startWith({ ...SETTINGS, ...environment }, command, '--json', '--port', `${ports[n]}`)),
  )
  view.processes.push(...started)
  await Promise.all(started.map(({ ready }) => ready))
}

const stopProcesses = (): Promise<void[]> =>
  Promise.all(
    view.processes
      .filter(({ child }) => child.exitCode === null)
      .map(async ({ child, ended }) => {
        child.kill('SIGTERM')
        expect((await ended).code).toBe(0)
      }),
  )

async function addLeads(count: number): Promise<void> {
  await query(
    `insert into crm.leads (email) select 'lead' || n || '@example.com' from generate_series($1::int, $2::int) n`,
    [leads + 1, (leads += count)],
  )
}

/** A scheduled run of all sources, with rows to look up. */
async function startNightly(rows: number): Promise<void> {
  await addLeads(rows)
  await query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state) values ($1, date_trunc('second', now()), $2, 'waiting')`,
    [scheduleName(nightly), nightly.sources],
  )
}

beforeAll(async () => {
  server = await startCrashableServer()
  disk = mkdtempSync(join(tmpdir(), 'fillrate-disk-'))
  const url = await createDatabase()
  pool = new pg.Pool({ connectionString: url, max: 2 })
  pool.on('error', () => {})
  await createCrm(pool, 40, 20)
  await query(
    'create table crm.leads (id bigint generated always as identity primary key, email text, title text)',
  )
  ports = await Promise.all([freePort(), freePort(), freePort()])
  const answers = { latencyAfterMs: LATENCY_MS, missingShare: 0, notFoundShare: 0 }
  sandbox = await startSandbox({ ...answers, retryDelaysMs: RETRY_DELAYS_MS })
  cli = await createCommandLine(url, sandbox, {})
  view = new OperatorView(cli)
  const [json, slack] = await Promise.all(view.targets.map((one) => one.listen()))
  await cli.configure({
    ...withAccounts,
    sources: {
      contacts: { ...contacts, follow: true },
      accounts: { ...accounts, follow: true },
      leads: { ...contacts, table: 'crm.leads', outputs: { title: 'title' }, touch: {} },
    },
    schedule: [nightly],
    service: { concurrency: SLOTS },
    notify: [
      { url: json, on: ['error', 'warning'] },
      { url: slack, form: 'slack', on: ['error', 'warning'] },
    ],
  })
  await run('migrate')
  await run('follow', 'install', 'contacts', 'accounts')
  await startProcesses()
  let edits = 0
  traffic = setInterval(() => {
    const email = `edit${++edits}@example.com`
    // What the fault forbids users, too, is lost to them: they are told.
    query('insert into crm.contacts (email) values ($1)', [email]).catch(() => {})
    if (edits % 4 === 0)
      query('insert into crm.accounts (website) values ($1)', [`https://edit${edits}.example`]).catch(
        () => {},
      )
  }, 1_000)
})
afterAll(async () => {
  clearInterval(traffic)
  for (const { child } of view.processes) child.kill('SIGKILL')
  await view.close()
  await cli.remove()
  await sandbox.close()
  await pool.end()
  await server.stop()
  if (canMount) execFileSync('umount', [disk])
  rmSync(disk, { recursive: true })
})

/** A database whose files are in a file system of their own, if that can be mounted. @returns its URL */
async function createDatabase(): Promise<string> {
  await onServer(server.url, async (client) => {
    if (canMount) {
      const { rows } = await client.query<{ data_directory: string }>('show data_directory')
      const { uid } = statSync(rows[0]?.data_directory ?? '')
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=64m,uid=${uid},mode=700`, 'tmpfs', disk])
      await client.query(`create tablespace small location '${disk}'`)
    }
    await client.query(`create database night ${canMount ? 'tablespace small' : ''}`)
  })
  const url = new URL(server.url)
  url.pathname = '/night'
  return url.href
}

interface Fault {
  readonly name: string
  readonly kind: ConditionKind
  /** In the words of its title, in a text that may have more. */
  readonly title: RegExp
  readonly begin: () => Promise<unknown>
  /** @returns when it was mended: processes that mend it take their time to start */
  readonly end: () => Promise<number>
}

const FAULTS: readonly Fault[] = [
  {
    name: 'a disk that is full',
    kind: 'database_away',
    title: /Postgres takes no writes: its disk is full/,
    begin: async () => {
      await addLeads(600)
      const manual = watchProcess(cli.start('run', 'leads', '--route', 'sync', '--json'))
      view.processes.push(manual)
      await expect.poll(manual.text).toContain('"run_started"')
      spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=4k'], { stdio: 'ignore' })
    },
    end: async () => {
      // The progress of the run says it, and blames no one else.
      const manual = view.processes.at(-1)
      await expect.poll(() => manual?.text()).toMatch(/"event":"progress".*its disk is full/)
      expect(manual?.text()).not.toContain('another process calls the service')
      rmSync(join(disk, 'filler'))
      return Date.now()
    },
  },
  {
    name: 'a renamed column',
    kind: 'source_broken',
    title: /contacts is left out/,
    begin: async () => {
      await query('alter table crm.contacts rename column seniority to seniority_level')
      await startNightly(40)
    },
    end: async () => {
      await query('alter table crm.contacts rename column seniority_level to seniority')
      return Date.now()
    },
  },
  {
    name: 'a rejecting trigger',
    kind: 'writes_rejected',
    title: /The database rejects (?:[\d,]+ )?rows of contacts/,
    begin: async () => {
      await query(`
        create function crm.guard() returns trigger language plpgsql as $$
        begin raise exception 'contact % may not be changed', new.email; end $$;
        create trigger guard before update on crm.contacts for each row execute function crm.guard()`)
      for (let n = 1; n <= 12; n++)
        await query('insert into crm.contacts (email) values ($1)', [`guarded${n}@example.com`])
      await startNightly(40)
    },
    end: async () => {
      const rejected = await query(
        `select key from fillrate.rows where source = 'contacts' and state = 'write_rejected'`,
      )
      await query('drop trigger guard on crm.contacts')
      await run('retry', 'contacts')
      // Whichever process sees the end logs it.
      const retried = watchProcess(cli.startWith({ LOG_LEVEL: 'info' }, 'run', 'contacts', '--json'))
      view.processes.push(retried)
      expect((await retried.ended).code).toBe(0)
      // Until they are written, rows are rejected.
      const [last] = await query(
        `select (extract(epoch from max(written_at)) * 1000)::float8 as ms from fillrate.changes
          where source = 'contacts' and key = any ($1)`,
        [rejected.map(({ key }) => key)],
      )
      return Number(last?.['ms'])
    },
  },
  {
    name: 'Postgres is away',
    kind: 'database_away',
    title: /Postgres is away/,
    begin: async () => {
      await startNightly(200)
      await server.halt()
    },
    end: async () => {
      await server.start()
      return Date.now()
    },
  },
  {
    name: 'the key refused and replaced',
    kind: 'key_refused',
    title: /rejects the API key/,
    begin: async () => {
      await startNightly(200)
      sandbox.configure({ keys: ['next-key'] })
    },
    end: async () => {
      await stopProcesses()
      const startedAt = Date.now()
      await startProcesses({ FILLRATE_API_KEY: 'next-key' })
      return startedAt
    },
  },
]

test.each(FAULTS.filter(({ begin }) => canMount || begin !== FAULTS[0]?.begin))(
  '$name is one condition with one end on every channel',
  async ({ name, kind, title, begin, end }) => {
    const [before] = await query('select coalesce(max(id), 0) as id from fillrate.conditions')
    const notices = view.targets.map(({ received }) => received.length)
    const at = Date.now()
    await begin()
    const began = await view.measure({ kind, title }, false, at)
    const ended = await view.measure({ kind, title }, true, await end())
    table.push([name, ...CHANNELS.map((one) => `${began.get(one)} / ${ended.get(one)}`)])

    const conditions = await query(
      `select kind, ended_at from fillrate.conditions where id > $1 and kind = $2`,
      [before?.['id'], kind],
    )
    expect(conditions).toEqual([{ kind, ended_at: expect.any(Date) }])
    expect([...view.strange]).toEqual([])
    for (const [index, { received }] of view.targets.entries()) {
      expect(received.slice(notices[index])).toMatchObject([
        { isEnd: false, title: expect.stringMatching(title) },
        { isEnd: true, title: expect.stringMatching(title) },
      ])
    }
  },
)

test('no kind of warning or error comes more than once a minute in the log', () => {
  const logs = view.processes.map((one) => one.log())
  expect(logs.flatMap(listRepeatedLines)).toEqual([])
})

test('the money is what the service has counted, and each row has its record', async () => {
  clearInterval(traffic)
  const blank = `select (select count(*) from crm.contacts where title is null or seniority is null)
    + (select count(*) from crm.accounts where industry is null) + (select count(*) from crm.leads where title is null) as rows`
  const unfinished = `select from fillrate.scheduled_runs where state in ('waiting', 'running')`
  await expect.poll(() => query(unfinished)).toEqual([])
  // What the night with the refused key has left, the next one looks up.
  await startNightly(0)
  await expect.poll(() => query(unfinished)).toEqual([])
  await expect.poll(() => query(blank)).toEqual([{ rows: '0' }])
  const status = JSON.parse(await run('status', '--json')) as StatusReport
  const { inputs } = sandbox.stats()
  const billed = inputs.requested_singly + inputs.requested_in_bulk
  expect(inputs).toMatchObject({ unanswered: 0, paid_more_than_once: 0 })
  const { lookups, in_doubt: inDoubt } = status.spend.today
  expect(lookups).toBe(billed)
  // Not one of them was billed. As after a crash, at most three a slot, each time that leases expire: on a full disk, and without Postgres.
  expect(inDoubt).toBeLessThanOrEqual(2 * 3 * SLOTS)
  expect(await query(`select count(*)::int as lookups from fillrate.lookups where state = 'found'`)).toEqual([
    { lookups },
  ])
  await stopProcesses()
  const head = ['condition', ...CHANNELS]
  const lines = [head, head.map(() => '-'), ...table].map((cells) => `| ${cells.join(' | ')} |`)
  const text = `Seconds to the begin / to the end\n${lines.join('\n')}\nBilled ${billed}\n`
  await writeFile(join(tmpdir(), 'fillrate-conditions.md'), text)
})
