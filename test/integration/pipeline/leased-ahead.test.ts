import pino from 'pino'
import * as runs from '../../../src/store/runs.ts'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { LEASE_MS } from '../../../src/pipeline/deps.ts'
import { LeaseKeeper, LookupQueue } from '../../../src/pipeline/look-up/lookup-queue.ts'
import type { BreakerState } from '../../../src/service/breaker.ts'
import { completeLookups, leaseLookups, type LeasedLookup } from '../../../src/store/lookup-leases.ts'
import { releaseExpiredLookups } from '../../../src/store/lookups.ts'
import { POLICY } from '../../support/answered-people.ts'
import { useFreshDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'

const LOOKUPS = 2_000
const database = useFreshDatabase()
let breaker: { state: BreakerState }
let queue: LookupQueue
let leases: LeaseKeeper

beforeEach(async () => {
  await beginRun(database.db, { route: 'sync' })
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id)
     select 'email', 'p' || n || '@example.com', '{}', 'pending', 1 from generate_series(1, ${LOOKUPS}) n`,
  )
  const [run] = await runs.listRunning(database.db)
  if (!run) throw new Error('the run should be live')
  leases = new LeaseKeeper({ db: database.db, log: pino({ level: 'silent' }) })
  const policy = { ...POLICY, concurrency: 32 }
  breaker = { state: 'closed' }
  queue = new LookupQueue(
    { db: database.db, policy, service: 0, adapter: BUILT_IN_SERVICE, webhookUrl: null, breaker },
    run,
    leases,
    { capacity: () => LOOKUPS, maxReady: 32, endpoint: null },
  )
})
afterEach(async () => {
  leases.stop()
})

/** Of these, lookups that are not leased in Postgres under their token. */
async function findUnleased(started: readonly LeasedLookup[]): Promise<number[]> {
  const rows = await database.query<{ id: number }>(
    `select k.id::int from unnest($1::bigint[], $2::uuid[]) as k (id, token)
      where not exists (select from fillrate.lookups l
                         where l.id = k.id and l.state = 'leased' and l.lease_token = k.token)`,
    [started.map(({ id }) => id), started.map(({ token }) => token)],
  )
  return rows.map(({ id }) => id)
}

/** Stores an answer, as a call does, with what is to be ready next. @returns how many lookups were leased with it */
async function storeAnswer({ id, token }: LeasedLookup): Promise<number> {
  const plan = queue.planAhead()
  const at = { requestedAt: new Date(), resolvedAt: new Date(), refreshAt: new Date() }
  const none = { reason: null, attempts: 1, notBefore: null, record: null, confidence: null }
  const { leased } = await completeLookups(
    database.db,
    [{ id, token, state: 'not_found', ...none, ...at }],
    plan,
  )
  if (plan !== null) queue.addLeased(plan, leased, performance.now())
  return leased.length
}

test('no call starts before its lease is committed, however leases and answers overlap', async () => {
  const started: LeasedLookup[] = []
  let ahead = 0
  for (let round = 0; round < 30; round++) {
    const next = await queue.next(round % 2 === 0 ? 7 : 5)
    started.push(...next)
    expect(await findUnleased(next)).toEqual([])
    const [answered] = next
    if (answered === undefined) throw new Error('something should have been leased')
    const [leased, others] = await Promise.all([storeAnswer(answered), queue.next(3)])
    ahead += leased
    started.push(...others)
    expect(await findUnleased(others)).toEqual([])
  }
  expect(ahead).toBeGreaterThan(30)
  expect(new Set(started.map(({ id }) => id)).size).toBe(started.length)
  await queue.close()
})

test('lookups that were leased ahead and not called wait again, and are not in doubt', async () => {
  const started = [...(await queue.next(10))]
  const [answered] = started
  if (answered === undefined) throw new Error('something should have been leased')
  await storeAnswer(answered)
  await queue.close()
  const rows = await database.query<{ state: string; count: number; doubt: number }>(
    `select state, count(*)::int, sum(unconfirmed_calls)::int as doubt from fillrate.lookups group by state order by state`,
  )
  expect(rows).toEqual([
    { state: 'leased', count: 9, doubt: 0 },
    { state: 'not_found', count: 1, doubt: 0 },
    { state: 'pending', count: LOOKUPS - 10, doubt: 0 },
  ])
})

test('an outage is probed with a lookup that has not failed yet, as long as there is one', async () => {
  await database.query(
    `update fillrate.lookups set reason = 'server (500)', not_before = now() - interval '1 s' where key <> 'p7@example.com'`,
  )
  breaker.state = 'open'
  const keys = async (): Promise<string[]> => {
    const ids = (await queue.next(1)).map(({ id }) => id)
    const rows = await database.query<{ key: string }>(
      'select key from fillrate.lookups where id = any ($1)',
      [ids],
    )
    return rows.map(({ key }) => key)
  }
  expect(await keys()).toEqual(['p7@example.com'])
  expect(await keys()).toEqual(['p1@example.com'])
  await queue.close()
})

test('a lookup that was erased after its lease is not called a second later', async () => {
  const [first] = await queue.next(10)
  const rows = await database.query<{ id: number }>(
    `delete from fillrate.lookups where id = (select max(id) from fillrate.lookups where state = 'leased') returning id::int`,
  )
  const [erased] = rows
  if (erased === undefined || first === undefined) throw new Error('something should be ready')
  expect(erased.id).toBeGreaterThan(first.id + 9)
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 1_500)
  const next = await queue.next(32)
  expect(next.length).toBeGreaterThan(0)
  expect(next.map(({ id }) => id)).not.toContain(erased.id)
  vi.restoreAllMocks()
  await queue.close()
})

test('what was leased by a statement that Postgres kept for long waits again, and is not in doubt', async () => {
  const called = await queue.next(10)
  await queue.next(10)
  const plan = queue.planAhead()
  if (plan === null) throw new Error('something should be leased ahead')
  const leased = await leaseLookups(database.db, plan)
  expect(leased.length).toBeGreaterThan(0)
  queue.addLeased(plan, leased, performance.now() - LEASE_MS + 1_000)
  await queue.close()
  expect(await findUnleased(leased)).toEqual(leased.map(({ id }) => id))
  expect(await findUnleased(called)).toEqual([])
  await database.query(`update fillrate.lookups set leased_until = now() - interval '1 s'`)
  expect(await releaseExpiredLookups(database.db, LOOKUPS)).toBe(20)
})

test('the leases of others under the same token live on when some are released', async () => {
  const [kept] = await queue.next(10)
  if (kept === undefined) throw new Error('something should be in flight')
  await queue.close()
  expect(leases.lostSignal(kept.token).aborted).toBe(false)
  expect(await findUnleased([kept])).toEqual([])
})

test('a statement that fails for its client, and leases all the same, leaves nothing leased', async () => {
  await queue.next(10)
  const plan = queue.planAhead()
  // All of them are ready.
  expect(plan).toBeNull()
  const ready = await queue.next(10)
  const next = queue.planAhead()
  const [answered] = ready
  if (next === null || answered === undefined) throw new Error('something should be leased ahead')
  const { id, token } = answered
  const lost = { reason: 'lost', attempts: 1, notBefore: null, record: null, confidence: null }
  const at = { requestedAt: new Date(), resolvedAt: null, refreshAt: null }
  const result = { id, token, state: 'pending' as const, ...lost, ...at }
  expect((await completeLookups(database.db, [result], next)).leased.length).toBeGreaterThan(0)
  queue.giveUp(next)
  await queue.close()
  const rows = await database.query<{ leased: number }>(
    `select count(*)::int as leased from fillrate.lookups where lease_token = $1`,
    [next.token],
  )
  expect(rows).toEqual([{ leased: 0 }])
})
