import { join, resolve } from 'node:path'
import { writeFile } from 'node:fs/promises'
import { expect, onTestFinished } from 'vitest'
import type { RunReport } from '../../src/domain/report/run.ts'
import type { ServiceDefinition } from '../../src/domain/service/adapter.ts'
import { createFillrate, type Fillrate } from '../../src/fillrate.ts'
import { expireLeases } from '../chaos/fixture.ts'
import { createCommandLine } from './cli.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import type { StandIn, StandInPlay } from './described-service.ts'

/** What a test chooses of a stand-in. */
export interface StandInOptions extends Pick<StandInPlay, 'balance' | 'latencyMs'> {
  /** One call in twenty has a 5xx, and one an error in a 200. */
  readonly hasFaults?: boolean
}

/** A table of people, and what is looked up of them. */
export interface PeopleSource {
  readonly table: string
  readonly people: number
  /** Fillrate's inputs, by the columns `email`, `profile`, `name` and `company`. */
  readonly inputs: Readonly<Record<string, string>>
  /** The record's field that the column `title` gets. */
  readonly title: string
  /** Default: person. The columns of a company: `domain`, and `title`, too. */
  readonly kind?: 'person' | 'company'
}

export const MAILED = { email: 't.email' }
export const NAMED = { name: 't.name', company: 't.company' }

/**
 * Creates the tables in a database of the test's own. The nth row is `pn@TABLE.example`, `https://www.linkedin.com/in/TABLE-n`, `Ada Tn` of `cn.example`: each input
 * ends in, or begins with, its number, so that a stand-in knows by `numberOf` which person it is about.
 */
export async function createPeople(sources: readonly PeopleSource[]): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  for (const { table, people } of sources)
    await database.query(
      `create table ${table} as
         select n as id, 'p' || n || '@${table}.example' as email,
                'https://www.linkedin.com/in/${table}-' || n as profile, 'Ada T' || n as name,
                'c' || n || '.example' as company, 'd' || n || '.example' as domain, null::text as title
           from generate_series(1, ${people}) n;
       alter table ${table} add primary key (id)`,
    )
  return database
}

/** Which row an input belongs to: its last number. */
export const numberOf = (input: string): number => Number(/\d+(?!.*\d)/.exec(input)?.[0])

/** Every fourth person is unknown to every stand-in. */
export const isKnownNumber = (n: number): boolean => n % 4 !== 0

export const countKnown = (people: number): number => people - Math.floor(people / 4)

const toConfig = (sources: readonly PeopleSource[]) =>
  Object.fromEntries(
    sources.map(({ table, inputs, title, kind = 'person' }) => [
      table,
      { kind, table, inputs, outputs: { title } },
    ]),
  )

/** What differs from a user's own configuration: the limit of the stand-in, and polls that come sooner. */
export interface Scaled {
  readonly limit: NonNullable<ServiceDefinition['rate']>['limit']
  readonly after?: string
}

const CONCURRENCY = 4

/** A description whose limit is that of the stand-in, and whose jobs are fetched sooner. */
export const scale = (service: ServiceDefinition, { limit, after }: Scaled): ServiceDefinition => ({
  ...service,
  rate: { ...service.rate, ...(limit !== undefined && { limit }) },
  ...(service.poll && after !== undefined && { poll: { ...service.poll, after } }),
})

interface DescribedRun {
  /** Default: a new one with the tables of the sources. */
  readonly database?: TestDatabase
  readonly service: ServiceDefinition
  readonly standIn: StandIn
  readonly sources: readonly PeopleSource[]
  /** The key: `id:secret` for OAuth. */
  readonly key: string
  readonly env?: Readonly<Record<string, string>>
}

interface OpenedRun {
  readonly database: TestDatabase
  readonly fillrate: Fillrate
}

/** Opens Fillrate in this process for a described service, until the test is over. */
export async function openDescribed(options: DescribedRun): Promise<OpenedRun> {
  const { service, standIn, sources, key, env } = options
  const { database = await createPeople(sources) } = options
  const fillrate = await createFillrate({
    config: {
      service: { adapter: service, concurrency: CONCURRENCY },
      sources: toConfig(sources) as never,
      bulk: { grace: '0s' },
    },
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: standIn.url, FILLRATE_API_KEY: key, ...env },
  })
  onTestFinished(() => fillrate.close())
  return { database, fillrate }
}

export const UNLIMITED = { budget: 'unlimited', waitMs: 60_000 } as const

/** Runs a described service to its end: nothing waits, has failed, or was refused for a limit. */
export async function runDescribed({
  route = 'auto',
  ...options
}: DescribedRun & { readonly route?: 'auto' | 'sync' }): Promise<OpenedRun & { readonly report: RunReport }> {
  const opened = await openDescribed(options)
  const report = await opened.fillrate.run({ ...UNLIMITED, route })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(options.standIn.refused()).toBe(0)
  return { ...opened, report }
}

/** A second run makes no call. */
export async function expectNoCall(fillrate: Fillrate, standIn: StandIn): Promise<void> {
  const calls = standIn.calls.length
  expect(await fillrate.run(UNLIMITED)).toMatchObject({ status: 'completed' })
  expect(standIn.calls.length).toBe(calls)
}

/** What runs have counted, in the description's credits: one a lookup, where it describes none. */
export async function countSpend(
  database: TestDatabase,
): Promise<{ readonly credits: number; readonly inDoubt: number; readonly callsInDoubt: number }> {
  const [row] = await database.query<{ credits: number; inDoubt: number; callsInDoubt: number }>(
    `select coalesce(sum(coalesce(credits, lookups)), 0)::float8 as credits,
            coalesce(sum(coalesce(credits_in_doubt, in_doubt)), 0)::float8 as "inDoubt",
            coalesce(sum(in_doubt), 0)::int as "callsInDoubt"
       from fillrate.spend`,
  )
  if (row === undefined) throw new Error('no spend')
  return row
}

/** Holds the service's books against what runs have counted. */
export async function expectBilledAsCounted(database: TestDatabase, standIn: StandIn): Promise<void> {
  const { credits, inDoubt } = await countSpend(database)
  expect({ billed: standIn.credits(), inDoubt, again: standIn.billedAgain().times }).toEqual({
    billed: credits,
    inDoubt: 0,
    again: 0,
  })
}

/** How a run of a process ended. */
interface KilledRuns {
  readonly report: {
    readonly status: string
    readonly rows: Readonly<Record<string, number>>
  }
  /** Runs that ended with SIGKILL. */
  readonly killed: number
}

/**
 * Runs the built program on a described service, kills it with SIGKILL after each number of answered calls, and lets a last
 * run finish.
 * @param options.module the example's file
 */
export async function runKilled(options: {
  readonly database: TestDatabase
  readonly module: string
  readonly scaled: Scaled
  readonly standIn: StandIn
  readonly sources: readonly PeopleSource[]
  readonly key: string
  readonly env?: Readonly<Record<string, string>>
  readonly killAfter: readonly number[]
}): Promise<KilledRuns> {
  const { database, module, scaled, standIn, sources, key, env = {}, killAfter } = options
  const { limit, after } = scaled
  const cli = await createCommandLine(
    database.url,
    { url: standIn.url, keys: [key], webhookSecret: '' },
    {
      service: { adapter: './described.mjs', concurrency: CONCURRENCY },
      sources: toConfig(sources),
      bulk: { grace: '0s' },
    },
  )
  onTestFinished(() => cli.remove())
  await writeFile(
    join(cli.folder, 'described.mjs'),
    `import service from ${JSON.stringify(resolve(module))}
     export default {
       ...service,
       rate: { ...service.rate, limit: ${JSON.stringify(limit)} },
       ...(service.poll && { poll: { ...service.poll, after: ${JSON.stringify(after ?? '1s')} } }),
     }`,
  )
  let killed = 0
  for (const calls of killAfter) {
    const run = cli.startWith(env, 'run', '--json', '--budget', 'unlimited')
    await Promise.race([standIn.untilCalls(calls), run.ended])
    run.child.kill('SIGKILL')
    const { code, stderr } = await run.ended
    if (code !== null) throw new Error(`it ended with ${code} before it was killed: ${stderr}`)
    killed++
    await expireLeases(database)
  }
  // What has failed twice is tried again minutes later, which no run waits for.
  for (let run = 1; ; run++) {
    await makeDue(database)
    const last = await cli.runWith(env, 'run', '--json', '--budget', 'unlimited')
    // 3: a row that the service rejects, or that waits.
    if (last.code !== 0 && last.code !== 3)
      throw new Error(`the last run ended with ${last.code}: ${last.stdout} ${last.stderr}`)
    const report = JSON.parse(last.stdout) as KilledRuns['report']
    if (report.rows['waiting'] === 0 || run === MAX_LAST_RUNS) return { report, killed }
  }
}

const MAX_LAST_RUNS = 4

/** Makes everything due that is tried again later, as time would. A job that was accepted is paid, and stays. */
async function makeDue({ query }: TestDatabase): Promise<void> {
  await query(`update fillrate.jobs set deadline_at = now() - interval '1 s' where state = 'in_doubt'`)
  await query(`update fillrate.jobs set poll_at = now() - interval '1 s' where poll_at is not null`)
  await query(`update fillrate.lookups set not_before = null where not_before is not null`)
  await query(`update fillrate.rows set due_at = now() where state = 'waiting' and due_at is not null`)
}
