import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import { hasPendingLookups, prunePending } from '../../../src/store/pending-lookups.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { wantLookups } from '../../support/want-lookups.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(async () => {
  await database.pool.query(`
    truncate fillrate.lookups, fillrate.pending_lookups, fillrate.lookup_leases, fillrate.jobs, fillrate.runs restart identity cascade;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    values ('manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour')`)
})

const RUN = 1
const MINUTE = 60_000

const want = (count: number, kind: 'email' | 'domain' = 'email') =>
  database.db.transaction().execute((tx) =>
    wantLookups(
      tx,
      Array.from({ length: count }, (_, n) => ({
        kind,
        key: `${n}.example`,
        input: { email: `${n}@x.example` },
      })),
      's',
      RUN,
      [RUN],
    ),
  )

const lease = async (limit: number, token = randomUUID()) =>
  (await leases.leaseLookups(database.db, { run: RUN, emails: true, limit, token, leaseMs: MINUTE })).map(
    ({ id }) => id,
  )

const createJobs = (count: number, least = 1) =>
  jobs.createJobs(database.db, {
    run: RUN,
    ids: Array.from({ length: count }, () => randomUUID()),
    least,
    token: randomUUID(),
    leaseMs: MINUTE,
    deadlineMs: MINUTE,
  })

/** The sizes of the entries, the oldest first. */
const entrySizes = async (): Promise<number[]> =>
  (await database.query<{ size: number }>('select size from fillrate.pending_lookups order by id')).map(
    ({ size }) => size,
  )

test('pending lookups are queued by the hundred, and taken in their order; the others before emails', async () => {
  await want(250)
  await want(3, 'domain')
  expect(await entrySizes()).toEqual([100, 100, 50, 3])
  expect(await lease(5)).toEqual([1, 2, 251, 252, 253])
  expect(await entrySizes()).toEqual([98, 100, 50])
  const made = await createJobs(2)
  expect(made.map(({ emails }) => emails.length)).toEqual([100, 100])
  expect(await entrySizes()).toEqual([48])
  // Too few for a job: they stay queued.
  expect(await createJobs(1, 50)).toEqual([])
  expect(await lease(100)).toHaveLength(48)
  expect(await hasPendingLookups(database.db, RUN)).toBe(false)
})

test('what is queued and no longer pending is dropped, and what is not due yet stays', async () => {
  await want(6)
  await database.pool.query(`
    update fillrate.lookups set state = 'found', record = '{}', resolved_at = now() where id = 1;
    update fillrate.lookups set run_id = null where id = 2;
    delete from fillrate.lookups where id = 3;
    update fillrate.lookups set not_before = now() + interval '1 hour' where id = 4`)
  expect(await lease(10)).toEqual([5, 6])
  expect(await entrySizes()).toEqual([1])
  await database.pool.query('update fillrate.lookups set not_before = null')
  expect(await lease(10)).toEqual([4])
  expect(await entrySizes()).toEqual([])
})

test('released, expired and requeued lookups are queued again, and lists that no lease needs are deleted', async () => {
  await want(3)
  const token = randomUUID()
  expect(await lease(1, token)).toEqual([1])
  await leases.releaseByToken(database.db, token)
  expect(await lease(3)).toEqual([1, 2, 3])
  await lookups.pruneLeases(database.db)
  expect(await database.count('fillrate.lookup_leases')).toBe(1)
  await database.pool.query(`update fillrate.lookup_leases set leased_until = now() - interval '1 s'`)
  expect(await lookups.releaseExpiredLookups(database.db, 10)).toBe(3)
  await lookups.pruneLeases(database.db)
  expect(await database.count('fillrate.lookup_leases')).toBe(0)

  const [job] = await createJobs(1)
  expect(await hasPendingLookups(database.db, RUN)).toBe(false)
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(3)
  // Not those of another job since.
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(0)
  expect(await lease(10)).toEqual([1, 2, 3])
})

test.each<[string, () => Promise<number>]>([
  ['leased', async () => (await lease(10)).length],
  ['put into jobs', async () => (await createJobs(1)).flatMap(({ emails }) => emails).length],
])('a lookup that another transaction has locked is not %s, and stays queued', async (_, take) => {
  await want(3)
  const other = await database.db.startTransaction().execute()
  await sql`select from fillrate.lookups where id = 2 for update`.execute(other)
  expect(await take()).toBe(2)
  expect(await take()).toBe(0)
  expect(await entrySizes()).toEqual([1])
  await other.rollback().execute()
  expect(await take()).toBe(1)
  expect(await entrySizes()).toEqual([])
})

test.each<[string, () => Promise<readonly string[]>]>([
  ['leased', async () => (await lease(10)).map((id) => `${id - 1}@x.example`)],
  ['put into jobs', async () => (await createJobs(1)).flatMap(({ emails }) => emails)],
])(
  'a lookup that changes after the statement began is %s once, by the next one if it is pending',
  async (_, take) => {
    await want(5)
    // Holds the entry, so that the statement below waits with the snapshot that it has taken.
    const other = await database.db.startTransaction().execute()
    await sql`select from fillrate.pending_lookups for update`.execute(other)
    const taken = take()
    await database.untilBlocked()
    await database.pool.query(`
      update fillrate.lookups set state = 'found', record = '{}', resolved_at = now() where id = 1;
      update fillrate.lookups set state = 'leased', lease_token = gen_random_uuid() where id = 2;
      update fillrate.lookups set attempts = 1 where id = 3;
      delete from fillrate.lookups where id = 4`)
    await other.commit().execute()
    expect(await taken).toEqual(['4@x.example'])
    expect(await take()).toEqual(['2@x.example'])
    expect(await take()).toEqual([])
    expect(await entrySizes()).toEqual([])
  },
)

test('of two statements at once, the second takes what the first has left', async () => {
  await want(250)
  const first = await database.db.startTransaction().execute()
  const options = { run: RUN, emails: true, limit: 120, leaseMs: MINUTE }
  const leased = await leases.leaseLookups(first, { ...options, token: randomUUID() })
  const made = createJobs(2)
  await database.untilBlocked()
  await first.commit().execute()
  const emails = (await made).flatMap((job) => job.emails)
  const all = new Set([...leased.map(({ input }) => input['email']), ...emails])
  expect([leased.length, emails.length, all.size]).toEqual([120, 80, 200])
  expect(await entrySizes()).toEqual([50])
})

test('the queue of a run that is over is deleted', async () => {
  await want(2)
  await prunePending(database.db)
  expect(await entrySizes()).toEqual([2])
  await database.pool.query(`update fillrate.runs set state = 'interrupted', finished_at = now()`)
  await prunePending(database.db)
  expect(await entrySizes()).toEqual([])
})

test('a lookup that two entries list is submitted once', async () => {
  await want(3)
  await database.pool.query(`
    insert into fillrate.pending_lookups (run_id, is_bulk, is_company, size, lookup_ids) values (1, true, false, 2, '{1,2}')`)
  const [job] = await createJobs(1)
  expect(job?.emails).toEqual(['0@x.example', '1@x.example', '2@x.example'])
  expect(await entrySizes()).toEqual([])
})
