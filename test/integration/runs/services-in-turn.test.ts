import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, runRequest, startHarness, stateSum } from '../../support/harness.ts'
import {
  createPeople,
  listExpected,
  readBill,
  TRIO,
  TRIO_NAMES,
  trioConfig,
  trioSandboxes,
  type TrioName,
  WRONG_ROWS,
} from '../../support/service-trio.ts'

const PEOPLE = 600
/** Each has more work than it may do: the second gets two fifths of the first one's rows, the third half of its. */
const LIMITS = { acme: 200, beta: 64, gamma: 24 }
const WINDOW_MS = 500

let harness: Harness
afterEach(() => harness.close())

const startTrio = async (people = PEOPLE, limits = LIMITS, windowMs = WINDOW_MS): Promise<Harness> =>
  (harness = await startHarness({
    config: trioConfig,
    services: trioSandboxes(limits, windowMs, { latencyAfterMs: [5, 40] }),
    prepare: ({ pool }) => createPeople(pool, people),
  }))

/**
 * After a long outage, the lookup that tried the service until then may wait longer for its next call than a run does: it is that of one
 * row, or of two with the same address.
 */
const MAY_WAIT = 2

/** Settled by the first service, and those that are to be. */
const SETTLED = `fillrate.rows where state <> 'waiting'`
const FIRST_SETTLED = 'oracle.people o join oracle.settled s using (key) where s.turn = 0'

const sandboxOf = (name: TrioName) => {
  const sandbox = harness.sandboxes[name]
  if (sandbox === undefined) throw new Error(`there is no sandbox of ${name}`)
  return sandbox
}

describe('three services that know 60, 55 and 45% of the people', () => {
  test.each(['sync', 'auto'] as const)(
    'fill what any of them knows, and each is requested with whom those before it do not know: %s',
    async (route) => {
      await startTrio()
      const report = await harness.run({ route, waitMs: 600_000 })
      expect(report).toMatchObject({ status: 'completed', rows: { picked: PEOPLE, waiting: 0 } })
      expect(stateSum(report)).toBe(PEOPLE)
      expect(await harness.count(WRONG_ROWS)).toBe(0)
      for (const [turn, name] of TRIO_NAMES.entries()) {
        const expected = await listExpected(harness, turn)
        const { people, paid } = readBill(sandboxOf(name))
        const { refused } = sandboxOf(name).stats().calls
        const { service, lookups, spend } = report.services?.[turn] ?? {}
        expect({
          people,
          paid,
          refused,
          service,
          requested: lookups?.requested,
          billed: spend?.lookups,
        }).toEqual({
          people: expected,
          paid: expected.length,
          refused: 0,
          service: name,
          requested: paid,
          billed: paid,
        })
        expect(spend?.cost?.currency).toBe('EUR')
        expect(spend?.cost?.amount).toBeCloseTo(paid * TRIO[name].price, 6)
      }
      if (route === 'sync') await expectSimultaneous()
      // Tomorrow's run pays nothing.
      const calls = harness.calls()
      expect(await harness.run({ route })).toMatchObject({
        status: 'completed',
        lookups: { requested: 0 },
      })
      expect(harness.calls()).toBe(calls)
    },
  )

  /** The first lookup of each is asked before the last of the one before it is answered. */
  async function expectSimultaneous(): Promise<void> {
    const spans = await harness.query<{ name: string; from: number; to: number }>(
      `select s.name, extract(epoch from min(l.requested_at))::float8 as "from", extract(epoch from max(l.resolved_at))::float8 as "to"
         from fillrate.lookups l join fillrate.services s on s.id = l.service_id group by s.name order by s.name`,
    )
    expect(spans.map(({ name }) => name)).toEqual(TRIO_NAMES)
    expect(spans.filter(({ from }, n) => n > 0 && from >= (spans[n - 1]?.to ?? 0))).toEqual([])
  }

  test('one that is down holds up only the rows that wait for it', async () => {
    await startTrio()
    const beta = sandboxOf('beta')
    beta.configure({ faults: { 503: 1 } })
    const app = await harness.open()
    const running = app.run(runRequest({ route: 'sync', waitMs: 600_000 }))
    const first = await harness.count(FIRST_SETTLED)
    await expect.poll(() => harness.count(SETTLED)).toBe(first)
    expect(beta.stats().inputs.requested_singly).toBe(0)
    expect(sandboxOf('gamma').stats().calls.accepted).toBe(0)
    beta.configure({ faults: {} })
    const report = await running
    await app.close()
    expect(report).toMatchObject({ status: 'completed', rows: { picked: PEOPLE } })
    const { waiting } = report.rows
    expect(waiting).toBeLessThanOrEqual(MAY_WAIT)
    expect(await harness.count(WRONG_ROWS)).toBeLessThanOrEqual(waiting)
    for (const [turn, name] of TRIO_NAMES.entries()) {
      const { people } = readBill(sandboxOf(name))
      const expected = await listExpected(harness, turn)
      expect(people.filter((one) => !expected.includes(one))).toEqual([])
      expect(expected.filter((one) => !people.includes(one)).length).toBeLessThanOrEqual(waiting)
    }
  })

  test('the minute for which one that is down is awaited begins when no other one works', async () => {
    // The first works for over a minute.
    await startTrio(80, { acme: 10, beta: 200, gamma: 200 }, 10_000)
    const beta = sandboxOf('beta')
    beta.configure({ faults: { 503: 1 } })
    const app = await harness.open()
    const running = app.run(runRequest({ route: 'sync', waitMs: 600_000 }))
    const first = await harness.count(FIRST_SETTLED)
    await expect.poll(() => harness.count(SETTLED), { timeout: 300_000 }).toBe(first)
    beta.configure({ faults: {} })
    const report = await running
    await app.close()
    expect(report.status).toBe('completed')
    expect(report.rows.waiting).toBeLessThanOrEqual(MAY_WAIT)
  })

  test.each([
    ['sync', false],
    ['sync', true],
    ['auto', false],
    ['auto', true],
  ] as const)(
    'two in opposite orders go on to the next identifier of a row before they wait for each other: %s, dry run %s',
    async (route, isDryRun) => {
      await startOpposite()
      const report = await harness.run({ route, ...(isDryRun && { dryRun: { sample: 1 } }) })
      expect(report).toMatchObject({ status: 'completed', rows: { picked: 40, waiting: 0 } })
      // Each is requested with all people of the first source that it serves, and with some of the other one's.
      const requested = await harness.query<{ name: string; source: string }>(
        `select distinct s.name, l.source from fillrate.lookups l join fillrate.services s on s.id = l.service_id order by 1, 2`,
      )
      expect(requested.map(({ name, source: of }) => `${name} ${of}`)).toEqual([
        'acme others',
        'acme people',
        'beta others',
        'beta people',
      ])
    },
  )

  test('two in opposite orders do not wait for a third one that waits for a full job', async () => {
    await startOpposite({ third: 'gamma' })
    const report = await harness.run({ route: 'auto' })
    expect(report).toMatchObject({ status: 'completed', rows: { picked: 40, waiting: 0 } })
    expect(sandboxOf('gamma').stats().inputs.distinct).toBeGreaterThan(0)
  })

  test('two in opposite orders do not wait for what the budget cannot pay of each other', async () => {
    await startOpposite()
    const report = await harness.run({ route: 'sync', budget: 47 })
    expect(report).toMatchObject({ status: 'budget_reached', lookups: { requested: 47 } })
    const rest = await harness.run({ route: 'sync' })
    expect(rest).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
    for (const sandbox of Object.values(harness.sandboxes)) expect(sandbox.stats().inputs.max_paid).toBe(1)
  })
})

test.each([false, true])(
  'a row that waits for a service when its run ends goes on there, although another has found it: changed inputs %s',
  async (hasChanged) => {
    harness = await startHarness({
      config: {
        services: { acme: {}, beta: {}, gamma: {} },
        sources: {
          people: {
            ...trioConfig.sources.people,
            services: ['acme', 'beta', { name: 'gamma', when: 'blank' }],
            // With the title that it has from beta, acme has nothing to fill.
            outputs: { title: { acme: 'title', beta: 'title' }, phone: { gamma: 'phone' } },
          },
        },
        budget: 'unlimited',
      },
      services: trioSandboxes({ acme: 1_000, beta: 1_000, gamma: 1_000 }, 1_000),
      prepare: ({ pool }) => createPeople(pool, 60),
    })
    const { keys } = sandboxOf('gamma')
    sandboxOf('gamma').configure({ keys: ['another'] })
    await harness.run({ route: 'sync' })
    const waiting = await harness.query<{ id: number }>(
      `select key::int as id from fillrate.rows where state = 'waiting' order by 1`,
    )
    const listTitles = () =>
      harness.query<{ id: number; title: string | null }>('select id, title from people order by id')
    const titles = await listTitles()
    expect(waiting.length).toBeGreaterThan(20)
    sandboxOf('gamma').configure({ keys })
    const [changed] = waiting
    if (hasChanged)
      await harness.query(`update people set email = 'new@example.com', title = null where id = $1`, [
        changed?.id,
      ])
    const report = await harness.run({ route: 'sync' })
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
    const rest = waiting.map(({ id }) => id).slice(hasChanged ? 1 : 0)
    const emails = await harness.query<{ email: string }>(
      `select distinct lower(email) as email from people where id = any($1)`,
      [rest],
    )
    const { people } = readBill(sandboxOf('gamma'))
    expect(emails.filter(({ email }) => !people.includes(email))).toEqual([])
    // One whose address has changed begins anew.
    expect(report.services?.[0]?.lookups.requested).toBe(hasChanged ? 1 : 0)
    const unchanged = (rows: typeof titles) => rows.filter((row) => !hasChanged || row.id !== changed?.id)
    expect(unchanged(await listTitles())).toEqual(unchanged(titles))
    const isUnfilled = `people p join oracle.known k on k.key = lower(p.email)
      where k.turn = 2 and k.confidence >= 0.3 and p.id = any(array[${rest.join(', ')}]) and p.phone is distinct from k.phone`
    expect(await harness.count(isUnfilled)).toBe(0)
  },
)

/** Two services, one before the other for one source and after it for another, in a cascade; and one after both. */
async function startOpposite({ third }: { readonly third?: string } = {}): Promise<void> {
  const last = third === undefined ? [] : [third]
  const source = {
    ...trioConfig.sources.people,
    inputs: { email: 't.email', linkedin_url: 't.profile' },
    cascade: true,
  }
  harness = await startHarness({
    config: {
      services: { acme: {}, beta: {}, ...Object.fromEntries(last.map((name) => [name, {}])) },
      sources: {
        people: { ...source, services: ['acme', 'beta', ...last] },
        others: { ...source, table: 'others', services: ['beta', 'acme', ...last] },
      },
      budget: 'unlimited',
    },
    services: Object.fromEntries(
      ['acme', 'beta', ...last].map((name, n) => [name, { seed: n + 1, notFoundShare: 0.5 }]),
    ),
    prepare: async ({ pool }) => {
      for (const name of ['people', 'others'])
        await pool.query(`
          create table ${name} (id int primary key, email text, profile text, title text, phone text);
          insert into ${name} select n, '${name}' || n || '@example.com', 'https://www.linkedin.com/in/${name}-' || n
            from generate_series(1, 20) n`)
    },
  })
}
