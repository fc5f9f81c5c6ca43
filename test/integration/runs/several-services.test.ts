import { afterEach, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../../src/sandbox/server.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { cancelRunningRun } from '../../../src/store/runs.ts'
import { withDaemon } from '../../support/app-processes.ts'
import { environmentForServices } from '../../support/environment.ts'
import { type Harness, runRequest, startHarness, stateSum } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

const ROWS = 120

/** The first service knows six in ten people, and the second others. */
const FIRST: Partial<SandboxOptions> = { notFoundShare: 0.4, missingShare: 0.3, seed: 1 }
const SECOND: Partial<SandboxOptions> = { notFoundShare: 0.5, missingShare: 0.3, seed: 2 }

const PEOPLE_SOURCE = personSource('people', { title: 'title', phone: 'phone' })

const OPPOSITE = { others: { table: 'others', services: ['beta', 'acme'] } }

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close()
})

interface Two extends Harness {
  readonly second: Sandbox
  /** Another instance, with a key that one of the services refuses. */
  openWithout(refused: 'acme' | 'beta'): ReturnType<Harness['open']>
}

async function startTwo(
  source: object,
  rest: object = {},
  changesOfFirst: Partial<SandboxOptions> = {},
): Promise<Two> {
  const harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: { people: { ...PEOPLE_SOURCE, ...source } },
      budget: 'unlimited',
      ...rest,
    },
    services: { acme: { ...FIRST, ...changesOfFirst }, beta: SECOND },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, phone text, profile text);
        insert into people select n, 'p' || n || '@example.com', null, null, 'https://www.linkedin.com/in/p' || n
          from generate_series(1, ${ROWS}) n;
        create table others (like people including all);`)
    },
  })
  opened.push(harness)
  const { beta: second } = harness.sandboxes
  if (second === undefined) throw new Error('there is no second sandbox')
  return {
    ...harness,
    second,
    run: (request) => harness.run({ route: 'sync', ...request }),
    openWithout: (refused) => {
      const refusing = { ...(refused === 'acme' ? harness.sandbox : second), keys: ['wrong'] }
      const sandboxes = { ...harness.sandboxes, [refused]: refusing }
      return harness.open({ environment: environmentForServices(harness.database.url, sandboxes) })
    },
  }
}

/** What each service has stored: how many people it was requested with, and knows. */
const LOOKUPS = `
  select s.name, count(*)::int as requested, count(*) filter (where l.state = 'found')::int as found
    from fillrate.lookups l join fillrate.services s on s.id = l.service_id group by s.name order by s.name`

describe('several services in order', () => {
  it('holds to the budget of all, and to that of each service', async () => {
    const two = await startTwo({}, { services: { acme: {}, beta: { budget: 5 } }, budget: 130 })
    const report = await two.run()
    const [acme, beta] = await two.query<{ requested: number }>(LOOKUPS)
    expect(report.status).toBe('budget_reached')
    expect(beta?.requested).toBe(5)
    expect(acme?.requested).toBe(ROWS)
    // What was left is requested later, once.
    const rest = await two.run({ budget: 'unlimited' })
    expect(rest.lookups.requested).toBeGreaterThan(0)
    expect(two.sandbox.stats({ inputs: true }).inputs.paid_more_than_once).toBe(0)
    expect(two.second.stats({ inputs: true }).inputs.paid_more_than_once).toBe(0)
  })

  it('writes what the first found although the second refuses its key', async () => {
    const two = await startTwo({})
    const app = await two.openWithout('beta')
    const report = await app.run(runRequest({ route: 'sync' })).finally(() => app.close())
    expect(report.status).toBe('unauthorized')
    expect(report.services?.map(({ service, status }) => [service, status])).toEqual([
      ['acme', 'completed'],
      ['beta', 'unauthorized'],
    ])
    const filled = await two.count('people where title is not null or phone is not null')
    expect(filled).toBeGreaterThan(ROWS / 3)
    // The others wait, and the next run requests only the second service with them.
    const next = await two.run()
    expect(next.status).toBe('completed')
    expect(next.services?.[0]?.lookups.requested).toBe(0)
    expect(next.services?.[1]?.lookups.requested).toBeGreaterThan(0)
    expect(await two.count("fillrate.rows where state = 'waiting'")).toBe(0)
  })

  it('leaves rows for the next pass, and counts them, where their next service refuses its key', async () => {
    const source = { services: [{ name: 'acme', minConfidence: 0.99 }, 'beta'], cascade: true }
    const inputs = { email: 't.email', linkedin_url: 't.profile' }
    // The limit holds the last rows back until the second service's part has ended.
    const two = await startTwo({ ...source, inputs }, {}, { limit: 40, windowMs: 1_000 })
    const refused = await two.openWithout('beta')
    const report = await refused.run(runRequest({ route: 'sync' })).finally(() => refused.close())
    expect(report).toMatchObject({ status: 'unauthorized', rows: { picked: ROWS } })
    // What has a record, however little confidence it has, was no miss: no other identifier of it is tried.
    const tried = await two.count(`people p join fillrate.lookups l on l.key = p.email and l.state = 'found'
        join fillrate.lookups other on other.key = replace(p.profile, 'https://www.', '')`)
    expect(tried).toBe(0)
    const waiting = await two.count("fillrate.rows where state = 'waiting'")
    expect(waiting).toBe(ROWS - (await two.count("fillrate.rows where state <> 'waiting'")))
    const next = await two.run()
    expect(next.services?.[0]?.lookups.requested).toBe(0)
    expect(await two.count("fillrate.rows where state = 'waiting'")).toBe(0)
  })

  it.each([
    { at: 'the first service', refused: 'acme', order: 'one order', sources: {} },
    { at: 'the second service', refused: 'beta', order: 'one order', sources: {} },
    // Then rows may come to each from the other.
    { at: 'the second service', refused: 'beta', order: 'opposite orders', sources: OPPOSITE },
  ] as const)(
    'takes over what a killed process left at $at, with $order',
    async ({ refused: service, sources }) => {
      const others = Object.entries(sources).map(
        ([name, own]) => [name, { ...PEOPLE_SOURCE, ...own }] as const,
      )
      const two = await startTwo({}, { sources: { people: PEOPLE_SOURCE, ...Object.fromEntries(others) } })
      const refused = await two.openWithout(service)
      await refused.run(runRequest({ route: 'sync', sources: ['people'] })).finally(() => refused.close())
      const waiting = await two.count("fillrate.rows where state = 'waiting'")
      expect(waiting).toBeGreaterThan(0)
      // As if its process had been killed a moment ago: the lease holds for a while.
      await two.query(`update fillrate.runs u set state = 'running', finished_at = null, leased_until = now() + interval '3 s'
      where exists (select from fillrate.rows r where r.run_id = u.id and r.state = 'waiting')`)
      const report = await two.run()
      expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
      expect(await two.count("fillrate.rows where state = 'waiting'")).toBe(0)
      expect(two.sandbox.stats({ inputs: true }).inputs.paid_more_than_once).toBe(0)
    },
  )

  it.each([
    { when: 'miss', outputs: {} },
    { when: 'blank', outputs: {} },
    // Each column has another service, and the first one's own is refreshed.
    {
      when: 'blank',
      outputs: { outputs: { title: { acme: 'title' }, phone: { acme: 'phone', beta: 'phone' } } },
    },
  ])('goes on in a dry run as the next run does, and writes nothing: $when $outputs', async (given) => {
    const { when, outputs } = given
    const two = await startTwo({ services: ['acme', { name: 'beta', when }], ...outputs })
    await two.query(
      "update people set title = 'given' where id <= 20; update people set email = null where id = 21",
    )
    const dry = await two.run({ dryRun: { sample: ROWS } })
    expect(dry).toMatchObject({ status: 'completed', reason: null, rows: { picked: ROWS, waiting: 0 } })
    expect(
      await two.count(`people where (title is not null and title <> 'given') or phone is not null`),
    ).toBe(0)
    expect(await two.count('fillrate.rows')).toBe(0)
    const called = dry.services?.map(({ lookups }) => lookups.requested)
    // The next run writes what was found, without a call.
    const next = await two.run()
    const { lookups, rows, cells } = next
    expect(lookups).toMatchObject({ requested: 0, distinct: dry.lookups.distinct })
    expect({ rows, cells }).toEqual({ rows: dry.rows, cells: dry.cells })
    for (const [n, service] of (next.services ?? []).entries()) {
      expect(service.lookups.stored).toBe(called?.[n])
      const { rows: ended, cells: ofService } = dry.services?.[n] ?? {}
      expect([ended, ofService?.written]).toEqual([service.rows, service.cells.written])
    }
    const written = await two.query(`
      select r.key, array_agg(distinct c.name) as columns from fillrate.changes r, jsonb_object_keys(r.after) c (name)
       group by r.key order by r.key`)
    const shown = (dry.dry_run?.sample ?? []).map(({ key, cells: ofRow }) => ({
      key,
      columns: ofRow.map(({ column }) => column).toSorted(),
    }))
    expect(shown.toSorted((one, other) => (one.key < other.key ? -1 : 1))).toEqual(written)
  })

  it('is cancelled as a whole', async () => {
    const two = await startTwo({}, {}, { limit: 5, windowMs: 600_000 })
    const app = await two.open()
    const started = Promise.withResolvers<number>()
    const request = runRequest({ route: 'sync', onStarted: started.resolve })
    const running = app.run(request).finally(() => app.close())
    const first = await started.promise
    await expect
      .poll(() => two.count("fillrate.rows where state <> 'waiting'"), { interval: 20 })
      .toBeGreaterThan(0)
    expect(await cancelRunningRun(two.database.db, first, 'ada')).toBe(true)
    const report = await running
    expect(report).toMatchObject({ status: 'interrupted', cancelled_by: 'ada' })
    expect(report.services?.at(-1)?.status).toBe('interrupted')
    // Nothing is lost.
    expect(await two.count('fillrate.rows')).toBe(ROWS)
    expect(stateSum(report)).toBe(ROWS)
  })

  it('goes from one service to the next in live sync', async () => {
    const two = await startTwo({ follow: true })
    const app = await two.open()
    await app.follow('install', 'people').finally(() => app.close())
    await withDaemon(two.open, async () => {
      await two.query(
        "insert into people select n, 'new' || n || '@example.com' from generate_series(1001, 1030) n",
      )
      await expect.poll(() => two.count("fillrate.rows where state <> 'waiting'"), { interval: 50 }).toBe(30)
    })
    const [acme, beta] = await two.query<{ requested: number; found: number }>(LOOKUPS)
    expect(acme?.requested).toBe(30)
    expect(beta?.requested).toBe(30 - (acme?.found ?? 0))
  })
})
