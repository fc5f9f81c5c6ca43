import { afterAll, beforeAll, expect, test } from 'vitest'
import { createBreaker } from '../../../src/service/breaker.ts'
import * as callers from '../../../src/store/callers.ts'
import * as outages from '../../../src/store/outages.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness({
    config: crmConfig,
    prepare: (database) => createCrm(database.pool, 200),
  })
})
afterAll(() => harness.close())

test('a service that is down costs a few calls and nobody an attempt, and the run goes on when it is back', async () => {
  const { sandbox, database } = harness
  sandbox.configure({ faults: { '503': 1 } })
  const app = await harness.open()
  const running = app.run(runRequest({ route: 'sync' }))
  const failed = (): number => sandbox.stats().faults['503'] ?? 0
  // The circuit is open once the calls of the beginning have failed: what is on the wire, and no more.
  await expect.poll(failed).toBeGreaterThanOrEqual(10)
  await expect.poll(async () => (await outages.find(database.db, app.scope ?? ''))?.pauseMs).toBe(5_000)
  const { rows } = await database.pool.query<{ attempts: number; failed: number }>(
    `select sum(attempts)::int as attempts, count(*) filter (where state = 'failed')::int as failed
       from fillrate.lookups`,
  )
  expect(rows[0]).toEqual({ attempts: 0, failed: 0 })
  expect(failed()).toBeLessThanOrEqual(10 + harness.config.service.concurrency)

  sandbox.configure({ faults: {} })
  const report = await running
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(await outages.find(database.db, app.scope ?? '')).toBe(null)
})

test('the process that calls next knows of an outage, and only who calls may tell of it', async () => {
  const { db } = harness.database
  const turn = { scope: 'a key', token: crypto.randomUUID() }
  const outage = { probeInMs: 30_000, pauseMs: 20_000 }
  await outages.keep(db, turn, outage)
  expect(await outages.find(db, 'a key')).toBe(null)

  await callers.acquire(db, 'a key', turn.token, 'somebody', 60_000)
  await outages.keep(db, turn, outage)
  const kept = await outages.find(db, 'a key')
  expect(kept?.pauseMs).toBe(20_000)

  const breaker = createBreaker()
  if (kept !== null) breaker.inherit(kept)
  expect(breaker.state).toBe('open')
  expect((breaker.nextProbeAt ?? 0) - Date.now()).toBeGreaterThan(20_000)
  await outages.keep(db, turn, null)
  expect(await outages.find(db, 'a key')).toBe(null)
})

test('a key that is refused in the middle of a run stops it within the calls on the wire, and loses nothing', async () => {
  const { sandbox, database } = harness
  await database.pool.query(
    `insert into crm.contacts (email) select 'more' || n || '@example.com' from generate_series(1, 300) n`,
  )
  sandbox.reset()
  const { concurrency } = harness.config.service
  sandbox.configure({ latencyAfterMs: [20, 60] })
  const running = harness.run({ route: 'sync' })
  await expect.poll(() => sandbox.stats().calls.accepted, { interval: 5 }).toBeGreaterThan(50)
  sandbox.configure({ keys: ['another key'] })
  const report = await running
  expect(report.status).toBe('refused')
  expect(report.reason).toMatch(/FILLRATE_API_KEY/)
  const refused = Object.values(sandbox.stats().requests).reduce((sum, by) => sum + (by['401'] ?? 0), 0)
  expect(refused).toBeGreaterThan(0)
  expect(refused).toBeLessThanOrEqual(concurrency)
  expect(report.rows.waiting).toBeGreaterThan(0)
  const { rows } = await database.pool.query<{ attempts: number }>(
    `select coalesce(sum(attempts), 0)::int as attempts from fillrate.lookups where state = 'pending'`,
  )
  expect(rows[0]?.attempts).toBe(0)
})
