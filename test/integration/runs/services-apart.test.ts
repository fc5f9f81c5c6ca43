import pino from 'pino'
import { afterEach, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import { openApp } from '../../../src/app.ts'
import { environmentOf } from '../../../src/config/environment.ts'
import { SourceWatch } from '../../../src/runs/source-health.ts'
import { listOpenConditions } from '../../../src/store/conditions.ts'
import { serveApp } from '../../support/app-processes.ts'
import { type Harness, runRequest, startHarness } from '../../support/harness.ts'
import { rewindWrites } from '../../support/rewind-writes.ts'

// What goes wrong at one service, or takes long, is no other one's.

let harness: Harness
afterEach(() => harness.close())

const source = { kind: 'person', inputs: { email: 't.email' }, outputs: { title: 'title', phone: 'phone' } }
const createTable = (name: string, rows: number): string => `
  create table ${name} (id int primary key, email text, title text, phone text);
  insert into ${name} select n, '${name}' || n || '@example.com' from generate_series(1, ${rows}) n;`

/** Two services, of which the second meets what `breaks` does to the tables. */
async function startTwo(where: string, breaks: string): Promise<void> {
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: { people: { ...source, table: 'people', where: [where] } },
      budget: 'unlimited',
    },
    services: { acme: { notFoundShare: 0.4, seed: 1 }, beta: { notFoundShare: 0.4, seed: 2 } },
    prepare: async ({ pool }) => void (await pool.query(createTable('people', 400))),
  })
  await harness.query(
    `create function fillrate.fail() returns trigger language plpgsql as $$ begin raise 'a failure' using errcode = 'internal_error'; end $$; ${breaks}`,
  )
}

test.each([
  {
    step: 'pick of its rows, while the source is read',
    where: `(case when t.id > 300 then pg_sleep(0.005) end)::text is distinct from 'never'`,
    breaks: `create trigger fails before update on fillrate.rows for each row
               when (new.service_id = 1 and old.lookup_id is null and new.lookup_id is not null) execute function fillrate.fail()`,
  },
  {
    step: 'call',
    where: 'true',
    breaks: `create trigger fails before update on fillrate.lookups for each row
               when (new.service_id = 1 and new.state = 'leased') execute function fillrate.fail()`,
  },
])('a $step that fails at the second service ends its part alone', async ({ where, breaks }) => {
  const unhandled: unknown[] = []
  const listen = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', listen)
  await startTwo(where, breaks)
  const report = await harness.run({ route: 'sync' }).finally(() => process.off('unhandledRejection', listen))
  expect(unhandled).toEqual([])
  expect(report).toMatchObject({
    status: 'failed',
    reason: expect.stringMatching(/^beta: raised by a trigger/) as string,
  })
  expect(report.services?.map(({ status }) => status)).toEqual(['completed', 'failed'])
  expect(await harness.query('select failed_for from fillrate.runs')).toEqual([{ failed_for: null }])
})

test('what a later service keeps for a full job does not wait for a service that has other rows', async () => {
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {}, gamma: {} },
      sources: {
        people: { ...source, table: 'people', services: ['acme', 'beta'] },
        others: { ...source, table: 'others', services: ['gamma'] },
      },
      budget: 'unlimited',
    },
    services: {
      acme: { notFoundShare: 0.2, seed: 1 },
      beta: { seed: 2 },
      gamma: { seed: 3, limit: 4, windowMs: 500 },
    },
    prepare: async ({ pool }) =>
      void (await pool.query(createTable('people', 100) + createTable('others', 145))),
  })
  expect(await harness.run({ route: 'auto' })).toMatchObject({ status: 'completed' })
  const [order] = await harness.query(`
    select max(l.resolved_at) filter (where s.name = 'beta') < max(l.resolved_at) filter (where s.name = 'gamma') as "isEarlier"
      from fillrate.lookups l join fillrate.services s on s.id = l.service_id`)
  expect(order).toEqual({ isEarlier: true })
})

test('`serve` writes what each service has answered, from its own fields', async () => {
  const outputs = { title: { acme: 'title', beta: 'company.name' } }
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: { people: { ...source, table: 'people', outputs } },
      budget: 'unlimited',
    },
    services: { acme: { notFoundShare: 0.5, seed: 1 }, beta: { notFoundShare: 0, seed: 2 } },
    prepare: async ({ pool }) => void (await pool.query(createTable('people', 60))),
  })
  await harness.run({ route: 'sync' })
  await rewindWrites(harness)
  await harness.query('update people set title = null')
  const app = await harness.open()
  const { stop } = await serveApp(app)
  try {
    const waiting = (): Promise<number> => harness.count(`fillrate.rows where state = 'waiting'`)
    await expect.poll(waiting, { timeout: 20_000 }).toBe(0)
  } finally {
    await stop()
    await app.close()
  }
  const isOfBeta = `title = l.record -> 'company' ->> 'name'`
  expect(
    await harness.query(`
      select s.name, bool_and(${isOfBeta}) as "isOfBeta", count(*) > 10 as "areMany"
        from people p join fillrate.rows r on r.key = p.id::text join fillrate.lookups l on l.id = r.lookup_id
        join fillrate.services s on s.id = l.service_id where p.title is not null group by 1 order by 1`),
  ).toEqual([
    { name: 'acme', isOfBeta: false, areMany: true },
    { name: 'beta', isOfBeta: true, areMany: true },
  ])
})

test('a column that one service fills breaks its source for all, and is told until it is back', async () => {
  const outputs = { title: 'title', phone: { beta: 'phone' } }
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: { people: { ...source, table: 'people', outputs }, others: { ...source, table: 'others' } },
      budget: 'unlimited',
    },
    services: { acme: {}, beta: {} },
    prepare: async ({ pool }) => void (await pool.query(createTable('people', 3) + createTable('others', 3))),
  })
  const app = await harness.open()
  const watches: SourceWatch[] = []
  for (const service of app.services) {
    const deps = await service.deps()
    watches.push(new SourceWatch(deps, [...deps.sources.values()], true))
  }
  const look = async (): Promise<boolean[]> => {
    const mended: boolean[] = []
    for (const watch of watches) mended.push(await watch.check())
    return mended
  }
  const openConditions = async () =>
    (await listOpenConditions(app.db)).map(({ kind, source }) => [kind, source])
  await look()
  await harness.query('alter table people rename phone to telephone')
  for (let looks = 0; looks < 3; looks++) {
    await look()
    expect(await openConditions()).toEqual([['source_broken', 'people']])
  }
  expect(await harness.run({ route: 'sync' })).toMatchObject({ left_out: [{ source: 'people' }] })
  await harness.query('alter table people rename telephone to phone')
  expect(await look()).toContain(true)
  expect(await openConditions()).toEqual([])
  await app.close()
})

test('an outage of one service is named on each channel, and nothing of the other changes', async () => {
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: {
        people: { ...source, table: 'people', services: ['acme', 'beta'] },
        leads: { ...source, table: 'leads', services: ['acme'] },
        others: { ...source, table: 'others', services: ['beta'] },
      },
      budget: 'unlimited',
    },
    services: { acme: { notFoundShare: 0.5, seed: 1 }, beta: { seed: 2 } },
    prepare: async ({ pool }) => {
      for (const name of ['people', 'leads', 'others']) await pool.query(createTable(name, 60))
    },
  })
  harness.sandboxes['beta']?.configure({ faults: { '503': 1 } })
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(line) })
  const open = () => openApp({ config: harness.config, environment: harness.environment, log })
  const [app, served] = [await open(), await open()]
  const { at, stop } = await serveApp(served)
  const read = async (path: string): Promise<string> => (await fetch(at + path)).text()
  const words = async (path: string): Promise<string> =>
    (await read(path)).replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
  const title = `beta answers with errors (HTTP 503)`
  const isBegun = (line: string): boolean => line.includes('"condition_began"')
  const running = app.run(runRequest({ route: 'sync' }))
  try {
    await expect.poll(() => lines.some(isBegun), { timeout: 30_000 }).toBe(true)
    const { conditions } = JSON.parse(await read('/api/status')) as StatusReport
    expect(conditions).toMatchObject([{ kind: 'service_failing', title }])
    const overview = await words('/')
    expect(overview).toContain(title)
    expect(overview).not.toContain('acme answers')
    const metrics = (await read('/metrics'))
      .split('\n')
      .filter((line) => line.startsWith('fillrate_condition') && line.endsWith(' 1'))
    expect(metrics).toEqual([
      'fillrate_condition{kind="service_failing",service="beta",source="",severity="error"} 1',
    ])
    expect(lines.filter(isBegun).map((line) => JSON.parse(line) as object)).toMatchObject([
      { kind: 'service_failing', service: 'beta', msg: title },
    ])
    // Where only the other is asked, all is done.
    expect(await harness.count(`fillrate.rows where source = 'leads' and state <> 'waiting'`)).toBe(60)
  } finally {
    harness.sandboxes['beta']?.configure({ faults: {} })
  }
  const report = await running
  await stop()
  await served.close()
  await app.close()
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(report.services).toMatchObject([{ service: 'acme' }, { service: 'beta', status: 'completed' }])
  const stats = harness.sandboxes['acme']?.stats()
  expect(stats).toMatchObject({ calls: { accepted: 120, refused: 0 } })
})

test('a service without a secret for its webhooks is called singly, whatever the other has', async () => {
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {} },
      sources: {
        people: { ...source, table: 'people', services: ['acme'] },
        others: { ...source, table: 'others', services: ['beta'] },
      },
      budget: 'unlimited',
    },
    services: { acme: {}, beta: {} },
    prepare: async ({ pool }) =>
      void (await pool.query(createTable('people', 150) + createTable('others', 150))),
  })
  const { services = {} } = harness.environment
  const beta = { ...environmentOf(harness.environment, 'beta'), webhookSecrets: [] }
  const report = await harness.run(
    { route: 'auto', waitMs: 5_000 },
    { environment: { services: { ...services, [beta.prefix ?? '']: beta } } },
  )
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  const jobs =
    'select s.name, count(*)::int from fillrate.jobs j join fillrate.services s on s.id = j.service_id'
  expect(await harness.query(`${jobs} group by 1`)).toEqual([{ name: 'acme', count: 2 }])
})
