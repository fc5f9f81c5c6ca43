import pino from 'pino'
import { expect } from 'vitest'
import { setTriggers } from '../../src/actions/triggers.ts'
import { openApp } from '../../src/app.ts'
import { scheduleName } from '../../src/config/cron.ts'
import { parseConfig } from '../../src/config/load.ts'
import { runDaemon } from '../../src/daemon/daemon.ts'
import type { FillrateNotification } from '../../src/domain/report/notification.ts'
import { notifiedAfterMs, type ConditionKind } from '../../src/domain/condition.ts'
import { openSource } from '../../src/sources/source.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/server.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { Cable } from './cable.ts'
import { createCrm, crmConfig } from './crm.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { testEnvironment } from './environment.ts'
import { startLoopback, type LoopbackService } from './loopback.ts'

// Daemons for a day on call: their service, database and notifications are behind cables that can be pulled, and what an
// operator sees of a fault is read from where operators see it.

interface LogLine {
  readonly event: string
  readonly kind?: string
  readonly reason?: string
  readonly msg: string
}

interface Daemon {
  readonly url: string
  readonly toDatabase: Cable
  stop(): Promise<void>
}

interface ShownCondition {
  readonly kind: ConditionKind
  readonly title: string
  readonly meaning: string
  readonly mend: string
}

/** What may end by itself is notified of to no one while these tests last. */
const isNotifiedAtOnce = (kind: ConditionKind): boolean => notifiedAfterMs({ kind, details: {} }) === 0

export class DayOnCall {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  readonly daemons: Daemon[] = []
  /** The target of notifications. */
  readonly #target: LoopbackService
  /** Of every daemon, also one that was stopped since. */
  readonly #lines: LogLine[] = []

  private constructor(database: TestDatabase, sandbox: Sandbox, target: LoopbackService) {
    this.database = database
    this.sandbox = sandbox
    this.#target = target
  }

  static async open(options: Partial<SandboxOptions>): Promise<DayOnCall> {
    const sandbox = await startSandbox({ notFoundShare: 0.1, missingShare: 0, ...options })
    const target = await startLoopback((_, response) => response.end())
    return new DayOnCall(await createTestDatabase(), sandbox, target)
  }

  /** Notifications, as their target got them. */
  get received(): FillrateNotification[] {
    return this.#target.received.map(({ body }) => JSON.parse(body) as FillrateNotification)
  }

  /** Where notifications are sent. */
  get notifyUrl(): string {
    return this.#target.url
  }

  get query(): TestDatabase['query'] {
    return this.database.query
  }

  environment(databaseUrl: string) {
    return {
      ...testEnvironment(databaseUrl, this.sandbox.url),
      databaseUrl,
      apiKey: this.sandbox.keys[0] ?? '',
      webhookSecrets: [this.sandbox.webhookSecret],
    }
  }

  /** Starts a daemon, as a user whose password is its name. It has loaded its configuration, unless it has to wait for the schema. */
  async start(
    given: unknown,
    { isWaiting = false, user }: { readonly isWaiting?: boolean; readonly user?: string } = {},
  ): Promise<Daemon> {
    const config = parseConfig(given, null)
    const toDatabase = await new Cable(this.database.url).plug()
    const url = new URL(toDatabase.through(this.database.url))
    if (user !== undefined) Object.assign(url, { username: user, password: user })
    const environment = this.environment(url.href)
    const log = pino(
      { level: 'info' },
      { write: (text: string) => void this.#lines.push(JSON.parse(text) as LogLine) },
    )
    const stop = new AbortController()
    const listening = Promise.withResolvers<string>()
    const loaded = Promise.withResolvers<void>()
    const ended = runDaemon({
      environment,
      log,
      signal: stop.signal,
      config,
      open: (state) => openApp({ config, environment, log, state }),
      onListening: (listens) => listening.resolve(listens ?? ''),
      onReady: () => loaded.resolve(),
    })
    const daemon: Daemon = {
      url: await listening.promise,
      toDatabase,
      stop: async () => {
        stop.abort()
        await ended
        await toDatabase.pull()
      },
    }
    this.daemons.push(daemon)
    if (!isWaiting) await loaded.promise
    return daemon
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.daemons.splice(0).map((one) => one.stop()))
  }

  /** The daemons end, and are started again an hour later: calls and lookups that wait until then are due. */
  async restartLater(config: unknown): Promise<void> {
    const daemons = this.daemons.length
    await this.stopAll()
    await this.query(`
      update fillrate.rate_limits set exhausted_until = (
        select jsonb_object_agg(key, value::timestamptz - interval '1 hour') from jsonb_each_text(exhausted_until)) where exhausted_until <> '{}'`)
    await this.query(`update fillrate.lookups set not_before = not_before - interval '1 hour'`)
    for (let n = 0; n < daemons; n++) await this.start(config)
  }

  async close(): Promise<void> {
    await this.stopAll()
    await this.sandbox.close()
    await this.#target.close()
    await this.database.drop()
  }

  /** What the first daemon says of a path; an empty text while it cannot. */
  async read(path: string): Promise<string> {
    const answer = await fetch(`${this.daemons[0]?.url}${path}`).catch(() => null)
    return answer?.status === 200 ? answer.text() : ''
  }

  /** The conditions that the first daemon shows. */
  async listShown(): Promise<ShownCondition[]> {
    const status = await this.read('/api/status')
    return status === '' ? [] : (JSON.parse(status) as { conditions: ShownCondition[] }).conditions
  }

  /** The notifications of conditions so far. */
  get notified(): string[] {
    return this.received.flatMap(({ event, condition }) =>
      condition === undefined ? [] : [`${event} ${condition.kind}`],
    )
  }

  logged(event: 'condition_began' | 'condition_ended', kind: ConditionKind): LogLine[] {
    return this.#lines.filter((line) => line.event === event && line.kind === kind)
  }

  /** Once for each time, by whichever daemon. */
  async #expectLogged(event: 'condition_began' | 'condition_ended', kind: ConditionKind): Promise<void> {
    const isBegin = event === 'condition_began'
    const recorded = (): Promise<unknown[]> =>
      this.query('select from fillrate.conditions where kind = $1 and ($2 or ended_at is not null)', [
        kind,
        isBegin,
      ])
    await expect.poll(async () => (await recorded()).length).toBeGreaterThan(0)
    await expect.poll(async () => this.logged(event, kind).length - (await recorded()).length).toBe(0)
  }

  async #expectNotified(event: 'condition_began' | 'condition_ended', kind: ConditionKind): Promise<void> {
    if (isNotifiedAtOnce(kind))
      await expect
        .poll(() => this.received.some((one) => one.event === event && one.condition?.kind === kind))
        .toBe(true)
  }

  /** Waits until these conditions are seen in the verdict, in the log, in the metrics and as notifications. */
  async see(...kinds: ConditionKind[]): Promise<void> {
    for (const kind of kinds) {
      let shown: ShownCondition | undefined
      await expect
        .poll(async () => {
          shown = (await this.listShown()).find((one) => one.kind === kind)
          return shown?.kind
        })
        .toBe(kind)
      await this.#expectLogged('condition_began', kind)
      const metric = new RegExp(`^fillrate_condition\\{[^}]*kind="${kind}"[^}]*\\} 1$`, 'm')
      await expect.poll(() => this.read('/metrics')).toMatch(metric)
      await this.#expectNotified('condition_began', kind)
      for (const text of [shown?.title, shown?.meaning, shown?.mend]) expect(text?.length).toBeGreaterThan(10)
    }
  }

  /** Waits until these conditions are over, everywhere. */
  async over(...kinds: ConditionKind[]): Promise<void> {
    for (const kind of kinds) {
      await expect
        .poll(async () => (await this.listShown()).map((one) => one.kind), { interval: 500 })
        .not.toContain(kind)
      await this.#expectLogged('condition_ended', kind)
      await this.#expectNotified('condition_ended', kind)
    }
  }
}

/** An hour far from now, so that a schedule fires only when a test asks for it. */
export const FAR_HOUR = (new Date().getUTCHours() + 12) % 24

/** Lets the last run of a schedule be three days ago, in one statement: between two it would be a new one, without missed nights. */
export const missNights = (
  { database }: { readonly database: Pick<TestDatabase, 'query'> },
  entry: { readonly cron: string; readonly timezone: string; readonly sources: string[] },
): Promise<unknown> =>
  database.query(
    `with former as (delete from fillrate.scheduled_runs where schedule = $1)
     insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at)
     values ($1, now() - interval '3 days', $2, 'done', now())`,
    [scheduleName(entry), entry.sources],
  )

/** Installs the triggers of live sync on the contacts of a configuration. */
export async function followContacts({ database }: DayOnCall, config: unknown): Promise<void> {
  const { contacts } = parseConfig(config, null).sources
  if (contacts === undefined) throw new Error('there is no such source')
  await setTriggers(database.db, await openSource(database.db, contacts), 'install')
}

/** A day of two daemons that follow the contacts of a CRM with so many of them, and notify of warnings, too. */
export async function openFollowedDay(
  options: Parameters<typeof DayOnCall.open>[0],
  more: object = {},
  contacts = 0,
): Promise<{ readonly day: DayOnCall; readonly config: object }> {
  const day = await DayOnCall.open(options)
  await createCrm(day.database.pool, contacts)
  const config = {
    ...crmConfig,
    sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
    budget: 200,
    notify: [{ url: day.notifyUrl, on: ['error', 'warning'] }],
    ...more,
  }
  await followContacts(day, config)
  for (let n = 0; n < 2; n++) await day.start(config)
  return { day, config }
}

/** Inserts new contacts `new<from>@example.com` to `new<to>@example.com`, each in a statement of its own. */
export const insertContacts = (day: DayOnCall, from: number, to: number): Promise<unknown> =>
  Promise.all(
    Array.from({ length: to - from + 1 }, (_, n) =>
      day.query('insert into crm.contacts (email) values ($1)', [`new${from + n}@example.com`]),
    ),
  )

/** How many of them were looked up. */
export const countAnswered = ({ database }: DayOnCall): Promise<number> =>
  database.count(`fillrate.lookups where key like 'new%' and state in ('found', 'not_found')`)
