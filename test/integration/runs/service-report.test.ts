import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ServiceReport } from '../../../src/actions/service-report.ts'
import { type Harness, runRequest, startHarness } from '../../support/harness.ts'
import {
  createPeople,
  listExpected,
  TRIO,
  TRIO_NAMES,
  trioConfig,
  trioSandboxes,
} from '../../support/service-trio.ts'

// Three services in order, as real runs have stored it; what they know of each person is in the tables of an oracle.

const PEOPLE = 300
const LIMITS = { acme: 2_000, beta: 2_000, gamma: 2_000 }

let harness: Harness
let report: ServiceReport
beforeAll(async () => {
  harness = await startHarness({
    config: trioConfig,
    services: trioSandboxes(LIMITS, 1_000),
    prepare: ({ pool }) => createPeople(pool, PEOPLE),
  })
  await harness.run({ route: 'sync' })
  const app = await harness.open()
  report = await app.serviceReport({ sources: [], since: null, order: null, timeoutMs: 60_000 })
})
afterAll(() => harness.close())

/** What the cells of the settled people are, in an order of the services: by the first that knows them. */
const SETTLED_IN = `
  select p.id, s.turn, (p.title is null and s.title is not null)::int + (p.phone is null and s.phone is not null)::int as cells
    from oracle.people p
    left join lateral (
      select k.*, array_position($1::int[], k.turn) as place from oracle.known k
       where k.key = p.key and k.confidence >= 0.3 order by place limit 1) s on true`

test('each service has answered, found, filled and cost what the oracle says', async () => {
  const order = TRIO_NAMES.map((_, turn) => turn)
  for (const [turn, name] of TRIO_NAMES.entries()) {
    const one = report.services[turn]
    const expected = await listExpected(harness, turn)
    const cells = await harness.scalar<number>(
      `select coalesce(sum(cells) filter (where turn = $2), 0)::int from (${SETTLED_IN}) s`,
      [order, turn],
    )
    expect(one).toMatchObject({
      service: name,
      answered: expected.length,
      lookups: expected.length,
      cells,
      only_cells: cells,
    })
    expect(one?.cost?.amount).toBeCloseTo(expected.length * TRIO[name].price, 6)
  }
})

test('the order as it is, is known to the row; every other one is within its bounds', async () => {
  const [people] = report.what_if
  expect(people).toMatchObject({ source: 'people', rows: PEOPLE, currency: 'EUR' })
  expect(people?.orders).toHaveLength(6)
  for (const {
    services,
    is_configured: isConfigured,
    cells,
    rows_found: rowsFound,
    steps,
    ...rest
  } of people?.orders ?? []) {
    const order = services.map((name) => TRIO_NAMES.findIndex((one) => one === name))
    const settled = await harness.query<{ id: number; turn: number | null; cells: number | null }>(
      SETTLED_IN,
      [order],
    )
    const found = settled.filter(({ turn }) => turn !== null)
    const filled = found.reduce((sum, one) => sum + (one.cells ?? 0), 0)
    expect(rowsFound).toEqual({ low: found.length, high: found.length, likely: found.length })
    expect(cells.low).toBeLessThanOrEqual(filled)
    expect(cells.high).toBeGreaterThanOrEqual(filled)
    for (const [n, step] of steps.entries()) {
      const before = new Set(order.slice(0, n))
      const requested = settled.filter(({ turn }) => turn === null || !before.has(turn)).length
      expect(step.requested.low).toBeLessThanOrEqual(requested)
      expect(step.requested.high).toBeGreaterThanOrEqual(requested)
      if (isConfigured) continue
      expect(step.cost?.low).toBeLessThanOrEqual(step.cost?.high ?? 0)
    }
    if (!isConfigured) continue
    expect({ ...rest, cells, filled }).toMatchObject({
      rows_estimated: 0,
      cells: { low: filled, high: filled },
    })
  }
  expect(people?.answer.join(' ')).toContain('gamma, the last, fills')
})

test('a sample that is looked up at the second service makes an estimate of the order that begins with it', async () => {
  await harness.query(
    `create table sample as select id, email, null::text as title, null::text as phone from people where id % 3 = 0;
     alter table sample add primary key (id)`,
  )
  const { people } = trioConfig.sources
  const sample = { ...people, table: 'sample', services: ['beta'] }
  const app = await harness.open({ config: { ...trioConfig, sources: { people, sample } } })
  await app.run(runRequest({ sources: ['sample'], dryRun: { sample: 0 }, route: 'sync' }))
  const { what_if: whatIf } = await app.serviceReport({
    sources: ['people'],
    since: null,
    order: ['beta', 'acme', 'gamma'],
    timeoutMs: 60_000,
  })
  const [, turned] = whatIf[0]?.orders ?? []
  const [first] = turned?.steps ?? []
  const known = await harness.scalar<number>(
    `select count(*)::int from oracle.people join oracle.known using (key) where turn = 1 and confidence >= 0.3`,
  )
  expect(turned).toMatchObject({ services: ['beta', 'acme', 'gamma'], is_configured: false })
  expect(first?.requested).toEqual({ low: PEOPLE, high: PEOPLE, likely: PEOPLE })
  expect(first?.found.low).toBeLessThanOrEqual(known)
  expect(first?.found.high).toBeGreaterThanOrEqual(known)
  expect(first?.found.likely).toBeGreaterThan(first?.found.low ?? 0)
  // A third of the rows is known: the bounds are closer than without.
  const [before] =
    report.what_if[0]?.orders.find(({ services }) => services.join() === 'beta,acme,gamma')?.steps ?? []
  expect(before?.found.likely).toBeNull()
  const width = (range: typeof first): number => (range?.found.high ?? 0) - (range?.found.low ?? 0)
  expect(width(first)).toBeLessThan(width(before) / 2)
})
