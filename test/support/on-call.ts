import type { ServerResponse } from 'node:http'
import pg from 'pg'
import { expect } from 'vitest'
import { scheduleName } from '../../src/config/cron.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import { Cable } from './cable.ts'
import type { TestDatabase } from './clone.ts'
import { createCommandLine, type CommandLine } from './cli.ts'
import { createCrm, withAccounts, personSource } from './crm.ts'
import { freePort } from './free-port.ts'
import { type LoopbackService, startLoopback } from './loopback.ts'
import {
  CHANNELS,
  type ExpectedCondition,
  listRepeatedLines,
  OperatorView,
  watchProcess,
} from './operator-view.ts'

// An hour on call: two processes of the built program, two services, three sources of which two are followed, a schedule and
// two notification targets. A fault is made and mended for real, and must be one condition with one end on every channel.

export const CONCURRENCY = 4
const LATENCY_MS = 100
/** As services do, for longer than Postgres is away: what a sandbox gives up is awaited until its deadline. */
const RETRY_DELAYS_MS = Array.from({ length: 300 }, () => 1_000)
/** As many connections as users have: otherwise pages wait for the work. */
const SETTINGS = { LOG_LEVEL: 'info', FILLRATE_MAX_CONNECTIONS: undefined }
/** Far from now: each fault meets a scheduled run that the test starts. */
const FAR_HOUR = (new Date().getUTCHours() + 12) % 24
/** What a condition, and its notification, may take on a busy machine beyond the time for which it must last, in seconds. */
const BOUND_S = 180

const sources = {
  contacts: { ...withAccounts.sources.contacts, follow: true, services: ['acme', 'beta'] },
  accounts: { ...withAccounts.sources.accounts, follow: true, services: ['acme'] },
  leads: personSource('crm.leads', { title: 'title' }, { services: ['beta'] }),
}

export const nightly = { cron: `0 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: Object.keys(sources) }

type ServiceName = 'acme' | 'beta'

/** A fault, and what an operator is to see of it. */
export interface Fault extends ExpectedCondition {
  readonly name: string
  readonly begin: (hour: OnCall) => Promise<unknown>
  /** @returns when it was mended, if that is not when it begins: processes that mend it take their time to start */
  readonly end: (hour: OnCall) => Promise<number | void>
}

export class OnCall {
  readonly pool: pg.Pool
  readonly acme: Sandbox
  readonly beta: Sandbox
  readonly cli: CommandLine
  readonly view: OperatorView
  /** The way to each service. */
  readonly #cables: Readonly<Record<ServiceName, Cable>>
  /** What answers in place of a service. */
  readonly #standIns = new Map<ServiceName, LoopbackService>()
  /** Kept over restarts: jobs are delivered to the address that the service was given. */
  readonly #ports: readonly number[]
  readonly #traffic: NodeJS.Timeout
  #leads = 0
  /** Daemons run: what users change without them would be late on a slow machine. */
  #isFollowed = false
  /** A fault was not seen, or not over, as it must. */
  isBroken = false
  /** The seconds of each fault, by channel. */
  readonly table: string[][] = []

  static async open(databaseUrl: string): Promise<OnCall> {
    // A user does not wait for a lock for ever.
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 4, lock_timeout: 500 })
    pool.on('error', () => {})
    await createCrm(pool, 40, 20)
    await pool.query(
      'create table crm.leads (id bigint generated always as identity primary key, email text, title text)',
    )
    const answers = { latencyAfterMs: LATENCY_MS, missingShare: 0, retryDelaysMs: RETRY_DELAYS_MS }
    const acme = await startSandbox({ ...answers, seed: 1, notFoundShare: 0.5 })
    const beta = await startSandbox({ ...answers, seed: 2, notFoundShare: 0, keys: ['beta-key'] })
    const cables = { acme: await new Cable(acme.port).plug(), beta: await new Cable(beta.port).plug() }
    const behind = ({ keys, webhookSecret }: Sandbox, { port }: Cable) => ({
      url: `http://127.0.0.1:${port}`,
      keys,
      webhookSecret,
    })
    const services = { acme: behind(acme, cables.acme), beta: behind(beta, cables.beta) }
    const cli = await createCommandLine(databaseUrl, services, {})
    const hour = new OnCall({ pool, acme, beta, cli, cables }, [await freePort(), await freePort()])
    const [json, slack] = await Promise.all(hour.view.targets.map((one) => one.listen()))
    await cli.configure({
      sources,
      services: { acme: { concurrency: CONCURRENCY }, beta: { concurrency: CONCURRENCY } },
      schedule: [nightly],
      budget: 'unlimited',
      notify: [
        { url: json, on: ['error', 'warning'] },
        { url: slack, form: 'slack', on: ['error', 'warning'] },
      ],
    })
    await hour.run('migrate')
    await hour.run('follow', 'install', 'contacts', 'accounts')
    await hour.start()
    return hour
  }

  private constructor(
    parts: Pick<OnCall, 'pool' | 'acme' | 'beta' | 'cli'> & {
      readonly cables: Readonly<Record<ServiceName, Cable>>
    },
    ports: readonly number[],
  ) {
    this.pool = parts.pool
    this.acme = parts.acme
    this.beta = parts.beta
    this.cli = parts.cli
    this.#cables = parts.cables
    this.#ports = ports
    this.view = new OperatorView(parts.cli)
    let edits = 0
    this.#traffic = setInterval(() => {
      if (!this.#isFollowed) return
      edits++
      // What a fault forbids users, too, is lost to them: they see an error.
      const insert = (text: string, value: string) => this.query(text, [value]).catch(() => {})
      void insert('insert into crm.contacts (email) values ($1)', `edit${edits}@example.com`)
      if (edits % 4 === 0)
        void insert('insert into crm.accounts (website) values ($1)', `https://edit${edits}.example`)
    }, 1_000)
  }

  readonly query: TestDatabase['query'] = async <Row>(text: string, values: unknown[] = []) =>
    (await this.pool.query(text, values)).rows as Row[]

  async run(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cli.run(...args)
    expect({ code, stderr }).toMatchObject({ code: 0 })
    return stdout
  }

  /** Starts the two processes. They have loaded their configuration. */
  async start(command: 'start' | 'serve' = 'start', environment: Record<string, string> = {}): Promise<void> {
    const started = this.#ports.map((port) =>
      watchProcess(
        this.cli.startWith({ ...SETTINGS, ...environment }, command, '--json', '--port', `${port}`),
        // A daemon has loaded its configuration a moment after it listens.
        command === 'start' ? 'follows' : 'public_url',
      ),
    )
    this.view.processes.push(...started)
    await Promise.all(started.map(({ ready }) => ready))
    this.#isFollowed = command === 'start'
  }

  /** Stops the processes when what users have changed is picked. */
  async stop(): Promise<void> {
    this.#isFollowed = false
    await expect.poll(() => this.query('select from fillrate.changed_rows')).toEqual([])
    const running = this.view.processes.filter(({ child }) => child.exitCode === null)
    await Promise.all(
      running.map(async ({ child, ended }) => {
        child.kill('SIGTERM')
        expect((await ended).code).toBe(0)
      }),
    )
  }

  async addLeads(count: number): Promise<void> {
    await this.query(
      `insert into crm.leads (email)
       select 'lead' || n || '@example.com' from generate_series($1::int, $2::int) n`,
      [this.#leads + 1, (this.#leads += count)],
    )
  }

  /** A scheduled run of all sources, with so many new companies, which acme looks up, and people, which beta does. */
  async startNightly(rows: number): Promise<void> {
    await this.addLeads(rows)
    await this.query(
      `insert into crm.accounts (website) select 'night' || gen_random_uuid() || '.example' from generate_series(1, $1::int)`,
      [rows],
    )
    await this.query(
      `insert into fillrate.scheduled_runs (schedule, at, sources, state)
       values ($1, date_trunc('second', now()), $2, 'waiting')`,
      [scheduleName(nightly), nightly.sources],
    )
  }

  /** Until what was scheduled is done. */
  async endNights(): Promise<void> {
    const unfinished = `select from fillrate.scheduled_runs where state in ('waiting', 'running')`
    await expect.poll(() => this.query(unfinished)).toEqual([])
  }

  /** What answers in place of a service, until it is back. Null: nothing does. */
  async replaceService(
    name: ServiceName,
    answer: ((response: ServerResponse) => void) | null,
  ): Promise<void> {
    const { port } = this.#cables[name]
    await this.#cables[name].pull()
    if (answer !== null)
      this.#standIns.set(name, await startLoopback((_request, response) => answer(response), port))
  }

  async restoreService(name: ServiceName): Promise<void> {
    await this.#standIns.get(name)?.close()
    this.#standIns.delete(name)
    await this.#cables[name].plug()
  }

  /** Kinds of warnings and errors that a process has logged more than once a minute. */
  listRepeatedLines(): string[] {
    return this.view.processes.flatMap((one) => listRepeatedLines(one.log()))
  }

  /** In seconds, as a table. */
  formatTimes(): string {
    const head = ['seconds to begin / end', ...CHANNELS]
    return [head, head.map(() => '-'), ...this.table].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
  }

  endTraffic(): void {
    clearInterval(this.#traffic)
  }

  async close(): Promise<void> {
    this.endTraffic()
    for (const { child } of this.view.processes) child.kill('SIGKILL')
    await this.view.close()
    for (const standIn of this.#standIns.values()) await standIn.close()
    for (const cable of Object.values(this.#cables)) await cable.pull()
    await this.cli.remove()
    await this.acme.close()
    await this.beta.close()
    await this.pool.end()
  }
}

/** Makes a fault, mends it, and expects one condition with one end on every channel, and nothing else. */
export async function expectCondition(hour: OnCall, { name, begin, end, ...expected }: Fault): Promise<void> {
  // What a fault has left would be seen beside the next one.
  if (hour.isBroken) throw new Error('the fault before it is not over')
  hour.isBroken = true
  const { kind, service, source, title } = expected
  await hour.view.quiet()
  const [before] = await hour.query('select coalesce(max(id), 0) as id from fillrate.conditions')
  const notices = hour.view.targets.map(({ received }) => received.length)
  const at = Date.now()
  await begin(hour)
  const began = await hour.view.measure(expected, false, at)
  const mendedAt = Date.now()
  const ended = await hour.view.measure(expected, true, (await end(hour)) ?? mendedAt)
  const format = (seconds = Number.NaN): string => seconds.toFixed(1)
  hour.isBroken = false
  hour.table.push([name, ...CHANNELS.map((one) => `${format(began.get(one))} / ${format(ended.get(one))}`)])

  // A process that still waits for a refused statement may record the same once more.
  const recorded = `select distinct kind, service, source, ended_at is not null as "isOver" from fillrate.conditions where id > $1`
  expect(await hour.query(recorded, [before?.['id']])).toEqual([{ kind, service, source, isOver: true }])
  expect([...hour.view.strange]).toEqual([])
  for (const [index, { received }] of hour.view.targets.entries())
    expect(received.slice(notices[index])).toMatchObject([
      { isEnd: false, title: expect.stringMatching(title) },
      { isEnd: true, title: expect.stringMatching(title) },
    ])
  for (const seconds of [...began.values(), ...ended.values()]) expect(seconds).toBeLessThan(BOUND_S)
}
