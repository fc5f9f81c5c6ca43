import { beforeAll, expect, test } from 'vitest'
import type { ServiceReport } from '../../../src/actions/service-report.ts'
import { useHarness } from '../../support/harness.ts'
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

let report: ServiceReport
const harness = useHarness({
  config: trioConfig,
  services: trioSandboxes(LIMITS, 1_000),
  prepare: ({ pool }) => createPeople(pool, PEOPLE),
})
beforeAll(async () => {
  await harness.run({ route: 'sync' })
  const app = await harness.open()
  report = await app.serviceReport({ sources: [], since: null, timeoutMs: 60_000 })
})

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
    })
    expect(one?.cost?.amount).toBeCloseTo(expected.length * TRIO[name].price, 6)
  }
  const { cells, cost } = report.services.at(-1)!
  expect(report.last).toEqual([{ source: 'people', service: 'gamma', cells, cost }])
})
