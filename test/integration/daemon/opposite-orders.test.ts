import { afterEach, expect, test } from 'vitest'
import { withDaemon } from '../../support/app-processes.ts'
import { missNights } from '../../support/day.ts'
import { type Harness, startHarness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

// Two sources whose rows go through two services in opposite orders: the run of each service waits for rows of the other.

const ROWS = 60

const sources = {
  people: { services: ['acme', 'beta'] },
  leads: { services: ['beta', { name: 'acme', when: 'blank' }] },
}

let services: Harness
afterEach(() => services.close())

async function start(rest: object, follow: boolean): Promise<void> {
  services = await startHarness({
    config: {
      // Singly: nothing is delivered to the daemon of a test.
      services: { acme: { bulk: { minimum: 1_000 } }, beta: { bulk: { minimum: 1_000 } } },
      sources: Object.fromEntries(
        Object.entries(sources).map(([name, source]) => [
          name,
          personSource(name, { title: 'title', phone: 'phone' }, { follow, ...source }),
        ]),
      ),
      budget: 'unlimited',
      ...rest,
    },
    services: {
      acme: { notFoundShare: 0.4, missingShare: 0.3, seed: 1 },
      beta: { notFoundShare: 0.5, missingShare: 0.3, seed: 2 },
    },
    prepare: async ({ pool }) => {
      for (const name of Object.keys(sources))
        await pool.query(`create table ${name} (id int primary key, email text, title text, phone text)`)
    },
  })
}

const insertRows = async (): Promise<void> => {
  for (const name of Object.keys(sources))
    await services.query(
      `insert into ${name} select n, '${name}' || n || '@example.com' from generate_series(1, ${ROWS}) n`,
    )
}

const settled = (): Promise<number> => services.count(`fillrate.rows where state <> 'waiting'`)

/** Requested by source and service, beside what the order of services says; nobody is paid twice. */
async function expectInOrder(): Promise<void> {
  const requested = await services.query(`
    select split_part(l.key, '@', 1) ~ '^people' as "isPeople", s.name, count(*)::int as requested
      from fillrate.lookups l join fillrate.services s on s.id = l.service_id group by 1, 2 order by 1, 2`)
  // What the first has not found; with `blank` what lacks a cell, too.
  const goOn = (source: string, first: string, condition: string): Promise<number> =>
    services.count(`fillrate.lookups l join fillrate.services s on s.id = l.service_id
      where s.name = '${first}' and l.key like '${source}%' and (${condition})`)
  expect(requested).toEqual([
    {
      isPeople: false,
      name: 'acme',
      requested: await goOn(
        'leads',
        'beta',
        `l.state = 'not_found' or l.record ->> 'title' is null or l.record ->> 'phone' is null`,
      ),
    },
    { isPeople: false, name: 'beta', requested: ROWS },
    { isPeople: true, name: 'acme', requested: ROWS },
    { isPeople: true, name: 'beta', requested: await goOn('people', 'acme', `l.state = 'not_found'`) },
  ])
  for (const sandbox of Object.values(services.sandboxes))
    expect(sandbox.stats({ inputs: true }).inputs.paid_more_than_once).toBe(0)
}

const nightly = { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: Object.keys(sources) }

const nightsDone = (): Promise<{ reason: string | null }[]> =>
  services.query(
    `select reason from fillrate.scheduled_runs where at > now() - interval '2 days' and state = 'done'`,
  )

test('a scheduled run ends with every row finished in its own order', async () => {
  await start({ schedule: [nightly] }, false)
  await insertRows()
  await missNights(services, nightly)
  await withDaemon(
    services.open,
    async () => void (await expect.poll(nightsDone, { interval: 50 }).toHaveLength(1)),
  )
  expect(await settled()).toBe(2 * ROWS)
  await expectInOrder()
})

test('a scheduled run ends though its budget leaves rows of each for the other', async () => {
  const entry = { ...nightly, budget: 2 * ROWS + 10 }
  await start({ schedule: [entry] }, false)
  await insertRows()
  await missNights(services, entry)
  await withDaemon(
    services.open,
    async () => void (await expect.poll(nightsDone, { interval: 50 }).toHaveLength(1)),
  )
  expect((await nightsDone())[0]?.reason).toContain('budget_reached')
  const [counted] = await services.query(`
    select count(*)::int as lookups, count(*) filter (where source = 'leads')::int > 0 as "hasLeads" from fillrate.lookups`)
  expect(counted).toEqual({ lookups: entry.budget, hasLeads: true })
  // What was left is done by the next run, once.
  await services.run({ route: 'sync' })
  expect(await settled()).toBe(2 * ROWS)
  await expectInOrder()
})

test('a run in bulk submits what it holds back for full jobs, because it waits for the other service', async () => {
  await start({ services: { acme: {}, beta: {} } }, false)
  await insertRows()
  const report = await services.run({ route: 'auto' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  expect(await services.count('fillrate.jobs')).toBeGreaterThanOrEqual(2)
  expect(await settled()).toBe(2 * ROWS)
  await expectInOrder()
})

test('live sync finishes changes of both, and what they change on their way', async () => {
  await start({}, true)
  const app = await services.open()
  for (const name of Object.keys(sources)) await app.follow('install', name)
  await app.close()
  await withDaemon(services.open, async () => {
    await insertRows()
    await expect.poll(settled, { interval: 50 }).toBe(2 * ROWS)
  })
  await expectInOrder()
})

test('live sync that has used up its budget keeps the changes of both, and ends when it is told to', async () => {
  await start({ liveSync: { budget: 40 } }, true)
  const app = await services.open()
  for (const name of Object.keys(sources)) await app.follow('install', name)
  await app.close()
  const spent = () => services.count('fillrate.lookups')
  await withDaemon(services.open, async () => {
    await insertRows()
    await expect.poll(spent, { interval: 50 }).toBe(40)
  })
  const kept = `(select source, key from fillrate.rows where state = 'waiting' union select source, unnest(keys) from fillrate.changed_rows) waiting`
  expect((await settled()) + (await services.count(kept))).toBe(2 * ROWS)
  await services.run({ route: 'sync' })
  expect(await settled()).toBe(2 * ROWS)
  await expectInOrder()
})
