import { beforeAll, expect, test } from 'vitest'
import { countFailureReasons } from '../../../src/store/row-search.ts'
import { useHarness } from '../../support/harness.ts'
import { personSource, withPeople } from '../../support/crm.ts'

const services = useHarness({
  config: {
    services: { acme: {}, beta: {} },
    sources: { people: personSource('people', { title: 'title' }) },
    budget: 'unlimited',
  },
  services: {
    acme: { notFoundShare: 0.5, missingShare: 0, seed: 1 },
    beta: { notFoundShare: 0, missingShare: 0, seed: 2 },
  },
  prepare: withPeople(40),
})
beforeAll(async () => {
  await services.run({ route: 'sync' })
})

test('rows that failed at a later service are named with it, and a retry calls that service alone', async () => {
  const calls = () => Object.values(services.sandboxes).map((sandbox) => sandbox.stats().calls.accepted)
  const handedOn = await services.count('fillrate.rows where missed_lookup_ids is not null')
  expect(handedOn).toBeGreaterThan(0)
  // As if each call of the second service had been answered with an error at every attempt.
  await services.query(`
    with failed as (
      update fillrate.rows set state = 'failed', failure = 'failed', reason = 'HTTP 500', due_at = null, last_written = null
       where missed_lookup_ids is not null returning key, lookup_id
    ), lookups as (
      update fillrate.lookups set state = 'failed', record = null from failed where id = lookup_id
    )
    update people p set title = null from failed where p.id = failed.key::int`)
  expect(await countFailureReasons(services.database.db, { source: null, states: null })).toEqual([
    { source: 'people', service: 'beta', state: 'failed', reason: 'HTTP 500', rows: handedOn },
  ])
  const [acme = 0, beta = 0] = calls()
  const app = await services.open()
  const report = await app.retry({
    sources: [],
    states: ['failed'],
    reason: null,
    dryRun: false,
    signal: new AbortController().signal,
  })
  await app.close()
  expect(report).toMatchObject({ rows: handedOn, lookups: handedOn })
  expect(await services.run({ route: 'sync' })).toMatchObject({
    status: 'completed',
    rows: { enriched: handedOn },
  })
  expect(calls()).toEqual([acme, beta + handedOn])
  expect(await services.count('people where title is null')).toBe(0)
})
