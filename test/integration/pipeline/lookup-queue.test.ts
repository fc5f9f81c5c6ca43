import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { LeaseKeeper } from '../../../src/pipeline/look-up/lease-keeper.ts'
import { LookupQueue } from '../../../src/pipeline/look-up/lookup-queue.ts'
import type { BreakerState } from '../../../src/service/breaker.ts'
import { markInFlight, type LeasedLookup } from '../../../src/store/lookup-leases.ts'
import { releaseExpiredLookups } from '../../../src/store/lookups.ts'
import * as runs from '../../../src/store/runs.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { QUEUE_PENDING } from '../../support/queue-pending.ts'

const LOOKUPS = 2_000
let database: TestDatabase
let breaker: { state: BreakerState }
let queue: LookupQueue
let leases: LeaseKeeper

beforeEach(async () => {
  database = await createTestDatabase()
  await runs.insertRun(database.db, {
    trigger: 'manual',
    sources: ['contacts'],
    options: { limit: null, budget: null, where: null, route: 'sync' },
    owner: 'test',
    token: randomUUID(),
    leaseMs: 60_000,
  })
  await database.pool.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id)
     select 'email', 'p' || n || '@example.com', '{}', 'pending', 1 from generate_series(1, ${LOOKUPS}) n`,
  )
  await database.pool.query(QUEUE_PENDING)
  const [run] = await runs.listRunning(database.db)
  if (!run) throw new Error('the run should be live')
  leases = new LeaseKeeper({ db: database.db, log: pino({ level: 'silent' }) })
  const policy = {
    attempts: 5,
    concurrency: 32,
    bulkMinimum: 50,
    bulkDeadlineMs: 1,
    bulkGraceMs: 1,
    callTimeoutMs: 30_000,
    sourceTimeoutMs: 1,
    lockedWaitMs: 0,
    price: null,
    refreshAfterMs: 1,
    retryNotFoundAfterMs: 1,
  }
  breaker = { state: 'closed' }
  queue = new LookupQueue(
    { db: database.db, policy, adapter: BUILT_IN_SERVICE, webhookUrl: null, breaker },
    run,
    leases,
    () => LOOKUPS,
    32,
  )
})
afterEach(async () => {
  leases.stop()
  await database.drop()
})

/** Of these, lookups that are not marked in flight in Postgres. */
async function findUnmarked(started: readonly LeasedLookup[]): Promise<number[]> {
  const { rows } = await database.pool.query<{ id: number }>(
    `select id::int from fillrate.lookups l
      where id = any ($1) and not exists (select from fillrate.in_flight_marks a where a.lease_token = l.lease_token and a.through_lookup_id >= l.id)`,
    [started.map(({ id }) => id)],
  )
  return rows.map(({ id }) => id)
}

test('no call starts before its in-flight mark is committed, however leases overlap', async () => {
  const started: LeasedLookup[] = []
  for (let round = 0; round < 30; round++) {
    const [first, second] = await Promise.all([queue.markNext(7), queue.markNext(5)])
    started.push(...first, ...second)
    expect(await findUnmarked([...first, ...second])).toEqual([])
    // As stored answers do: this marks the next lookups while others start. Not at first, when each leases for itself.
    if (round > 0) {
      const ahead = queue.takeAhead()
      queue.addReady(ahead, await markInFlight(database.db, ahead))
    }
  }
  expect(started.length).toBeGreaterThan(100)
  expect(new Set(started.map(({ id }) => id)).size).toBe(started.length)
  await queue.close()
})

test('prefetched lookups that were not requested wait again', async () => {
  const started = [...(await queue.markNext(100)), ...(await queue.markNext(100))]
  const ahead = queue.takeAhead()
  queue.addReady(ahead, await markInFlight(database.db, ahead))
  expect(ahead.length).toBeGreaterThan(0)
  const { rows: leased } = await database.pool.query<{ count: number }>(
    `select count(*)::int as count from fillrate.lookups where state = 'leased'`,
  )
  expect(leased[0]?.count).toBeGreaterThan(started.length + ahead.length)
  await queue.close()
  const { rows } = await database.pool.query<{ state: string; count: number }>(
    `select state, count(*)::int from fillrate.lookups group by state order by state`,
  )
  expect(rows).toEqual([
    { state: 'leased', count: started.length },
    { state: 'pending', count: LOOKUPS - started.length },
  ])
})

test('an outage is probed with a lookup that has not failed yet, as long as there is one', async () => {
  await database.pool.query(
    `update fillrate.lookups set reason = 'server (500)', not_before = now() - interval '1 s' where key <> 'p7@example.com'`,
  )
  breaker.state = 'open'
  const keys = async (): Promise<string[]> => {
    const ids = (await queue.markNext(1)).map(({ id }) => id)
    const { rows } = await database.pool.query<{ key: string }>(
      'select key from fillrate.lookups where id = any ($1)',
      [ids],
    )
    return rows.map(({ key }) => key)
  }
  expect(await keys()).toEqual(['p7@example.com'])
  expect(await keys()).toEqual(['p1@example.com'])
  await queue.close()
})

test('a lookup that was erased after its mark is not called', async () => {
  await queue.markNext(100)
  await queue.markNext(100)
  const ahead = queue.takeAhead()
  queue.addReady(ahead, await markInFlight(database.db, ahead))
  const [erased] = ahead
  if (erased === undefined) throw new Error('something should be ready')
  await database.pool.query(`delete from fillrate.lookups where id = $1`, [erased.id])
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 1_500)
  const next = await queue.markNext(32)
  expect(next.length).toBeGreaterThan(0)
  expect(next.map(({ id }) => id)).not.toContain(erased.id)
  vi.restoreAllMocks()
  await queue.close()
})

test('a lookup whose lease expired while Postgres was away waits again, and is not in doubt: it was not called', async () => {
  const called = [...(await queue.markNext(100)), ...(await queue.markNext(100))]
  const ahead = queue.takeAhead()
  expect(ahead.length).toBeGreaterThan(0)
  await database.pool.query(
    `update fillrate.lookups set leased_until = now() - interval '1 s' where state = 'leased'`,
  )
  queue.addReady(ahead, await markInFlight(database.db, ahead))
  await queue.close()
  const { rows } = await database.pool.query<{ id: number }>(
    `select id::int from fillrate.lookups where state = 'leased' order by id`,
  )
  expect(rows).toEqual(called.map(({ id }) => ({ id })))
  expect(await releaseExpiredLookups(database.db, LOOKUPS)).toEqual({ inDoubt: called.length, uncalled: 0 })
})

test('the leases of others under the same token live on when some are given back', async () => {
  await queue.markNext(100)
  const [kept] = await queue.markNext(100)
  const ahead = queue.takeAhead()
  expect(ahead.length).toBeGreaterThan(0)
  await queue.giveBack(ahead)
  const more = queue.takeAhead()
  await queue.giveBack(more)
  if (kept === undefined) throw new Error('something should be in flight')
  expect(leases.lostSignal(kept.token).aborted).toBe(false)
  const next = await queue.markNext(32)
  for (const { token } of next) expect(leases.lostSignal(token).aborted).toBe(false)
  await queue.close()
})
