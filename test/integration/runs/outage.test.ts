import * as rateLimits from '../../../src/store/rate-limits.ts'
import { firstOf } from '../../../src/runs/run-part.ts'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ProcessState } from '../../../src/daemon/condition-watch.ts'
import { runExitCode } from '../../../src/runs/report.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

// Each on its own database, so that none affects another.
async function start(people: number): Promise<Harness> {
  const harness = await startHarness({
    config: crmConfig,
    prepare: (database) => createCrm(database.pool, people),
  })
  onTestFinished(() => harness.close())
  return harness
}

test('an outage costs a few calls and no attempts, and the run continues when it ends', async () => {
  const harness = await start(200)
  const { sandbox, database } = harness
  sandbox.configure({ faults: { '503': 1 } })
  const app = await harness.open()
  const running = app.run(runRequest({ route: 'sync' }))
  await expect
    .poll(async () => rateLimits.findCircuit(database.db, firstOf(app.services).scope ?? ''))
    .not.toBe(null)
  // Calls in flight when the circuit opened, and at most a few probes, whose pauses double.
  const failed = sandbox.stats().faults['503'] ?? 0
  expect(failed).toBeLessThanOrEqual(10 + firstOf(harness.config.services).concurrency + 10)
  const rows = await database.query<{ attempts: number; failed: number }>(
    `select coalesce(sum(attempts), 0)::int as attempts, count(*) filter (where state = 'failed')::int as failed
       from fillrate.lookups where resolved_at is null or state = 'failed'`,
  )
  expect(rows[0]).toEqual({ attempts: 0, failed: 0 })

  sandbox.configure({ faults: {} })
  const report = await running
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(await rateLimits.findCircuit(database.db, firstOf(app.services).scope ?? '')).toBe(null)
})

test('inputs that always fail neither open the circuit nor hold up a run: it leaves them, and says until when', async () => {
  const harness = await start(200)
  const { sandbox, database } = harness
  const isBad = (email: string | undefined): boolean => /^person1?[1-5]@/.test(email ?? '')
  sandbox.configure({ plan: (fault, { inputs }) => (fault === '500' && isBad(inputs[0])) || undefined })
  // A second attempt within ten seconds, the third more than a minute ahead, even if the machine is slow.
  vi.spyOn(Math, 'random').mockReturnValue(0.28)
  onTestFinished(() => void vi.restoreAllMocks())
  const report = await harness.run({ route: 'sync' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 10, failed: 0 } })
  expect(report.reason).toMatch(/10 rows wait for the retry of a failed call: the next run makes it, from /)
  expect(runExitCode(report)).toBe(3)
  // Each was tried twice. A fault is stored as an attempt only when another call succeeds after it, so the last ones
  // of a run may be stored by the next.
  const failed = sandbox.stats().faults['500'] ?? 0
  expect(failed).toBeGreaterThanOrEqual(20)
  const rows = await database.query<{ counted: boolean; held: boolean }>(
    `select bool_and(not_before > now()) as held, bool_or(attempts >= 1) as counted from fillrate.lookups where state = 'pending'`,
  )
  expect(rows).toEqual([{ held: true, counted: true }])

  // The next run takes them, and their times stay, however long the first one took.
  await database.query(
    `update fillrate.lookups set not_before = not_before + interval '1 day' where state = 'pending'`,
  )
  const again = await harness.run({ route: 'sync' })
  expect(again).toMatchObject({ status: 'completed', rows: { waiting: 10 } })
  expect(sandbox.stats().faults['500']).toBe(failed)
})

test('an unreachable service is no attempt of a lookup', async () => {
  const harness = await start(3)
  const { database } = harness
  const app = await harness.open({ environment: { baseUrl: 'http://127.0.0.1:9' } })
  const stop = new AbortController()
  const running = app.run(runRequest({ route: 'sync', signal: stop.signal }))
  await expect
    .poll(async () => rateLimits.findCircuit(database.db, firstOf(app.services).scope ?? ''))
    .not.toBe(null)
  stop.abort()
  expect(await running).toMatchObject({ status: 'interrupted', rows: { waiting: 3, failed: 0 } })
  const rows = await database.query(
    'select sum(attempts)::int as attempts, sum(unconfirmed_calls)::int as unconfirmed_calls from fillrate.lookups',
  )
  expect(rows).toEqual([{ attempts: 0, unconfirmed_calls: 0 }])
})

test('a call cut off after it was sent is in doubt, and retried only rarely', async () => {
  const harness = await start(60)
  const { sandbox } = harness
  const isSlow = (email: string | undefined): boolean => /^person[1-4]5@/.test(email ?? '')
  sandbox.configure({
    plan: (fault, { inputs }) => (fault === 'drop-after' && isSlow(inputs[0])) || undefined,
  })
  vi.spyOn(Math, 'random').mockReturnValue(0.1)
  onTestFinished(() => void vi.restoreAllMocks())
  const report = await harness.run({ route: 'sync' })
  // One attempt, one more after 3 s; the third is minutes ahead.
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 4 }, lookups: { in_doubt: 8 } })
  expect(sandbox.stats().faults['drop-after']).toBe(8)
})

test('the next leader inherits an open circuit, and only the leader may store one', async () => {
  const harness = await start(0)
  const { db } = harness.database
  const lease = { scope: 'a key', service: 0, token: crypto.randomUUID() }
  const circuit = { probeInMs: 30_000, backoffMs: 20_000, reason: 'HTTP 503', cause: 'failing' as const }
  await rateLimits.saveCircuit(db, lease, circuit)
  expect(await rateLimits.findCircuit(db, 'a key')).toBe(null)

  await rateLimits.acquireLease(db, 'a key', lease.token, 'another process', 60_000)
  await rateLimits.saveCircuit(db, lease, circuit)
  const kept = await rateLimits.findCircuit(db, 'a key')
  expect(kept).toMatchObject({
    scope: 'a key',
    backoffMs: 20_000,
    reason: 'HTTP 503',
    cause: 'failing' as const,
  })

  const breaker = new Breaker()
  if (kept !== null) breaker.restore(kept)
  expect(breaker.state).toBe('open')
  expect((breaker.nextProbeAt ?? 0) - Date.now()).toBeGreaterThan(20_000)
  await harness.database.query(
    `update fillrate.circuit_breakers set stored_at = now() + interval '1 day', probe_at = now() + interval '1 day'`,
  )
  // The clock was a day ahead.
  expect(await rateLimits.findCircuit(db, 'a key')).toMatchObject({ probeInMs: 0 })
  await rateLimits.saveCircuit(db, lease, null)
  expect(await rateLimits.findCircuit(db, 'a key')).toBe(null)
})

test('a key rejected within a run stops it after the calls in flight, and loses nothing', async () => {
  const harness = await start(400)
  const { sandbox, database } = harness
  const { concurrency } = firstOf(harness.config.services)
  sandbox.configure({ latencyAfterMs: [20, 60] })
  const running = harness.run({ route: 'sync' })
  await expect.poll(() => sandbox.stats().calls.accepted, { interval: 5 }).toBeGreaterThan(50)
  sandbox.configure({ keys: ['another key'] })
  const report = await running
  expect(report.status).toBe('unauthorized')
  expect(report.reason).toMatch(/rejected the API key \w+ \(HTTP 401\)/)
  const refused = Object.values(sandbox.stats().requests).reduce((sum, by) => sum + (by['401'] ?? 0), 0)
  expect(refused).toBeGreaterThan(0)
  expect(refused).toBeLessThanOrEqual(concurrency)
  expect(report.rows.waiting).toBeGreaterThan(0)
  const rows = await database.query<{ attempts: number }>(
    `select coalesce(sum(attempts), 0)::int as attempts from fillrate.lookups where state = 'pending'`,
  )
  expect(rows[0]?.attempts).toBe(0)
})

test('a key that is accepted again is no condition, also after a reload, whose client knows no rejection', async () => {
  const harness = await start(10)
  const own = new ProcessState()
  const { keys } = harness.sandbox
  harness.sandbox.configure({ keys: ['another key'] })
  const before = await harness.open({ state: own })
  await before.run(runRequest({ route: 'sync' }))
  // Its watch, which another process has, would store it.
  const { db } = harness.database
  const refused = 'select cause, reason from fillrate.circuit_breakers'
  await own.storeKeyNews(db)
  expect(await harness.query(refused)).toEqual([
    { cause: 'key_refused', reason: expect.stringContaining('401') as string },
  ])
  await before.close()

  harness.sandbox.configure({ keys: [...keys] })
  const after = await harness.open({ state: own })
  expect(await after.run(runRequest({ route: 'sync' }))).toMatchObject({ status: 'completed' })
  await own.storeKeyNews(db)
  expect(await harness.query(refused)).toEqual([])
})
