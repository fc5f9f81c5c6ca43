import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { LookupKind } from '../../../src/domain/identifiers/kind.ts'
import { markRowsDeleted } from '../../../src/store/deleted-rows.ts'
import { eraseLookups } from '../../../src/store/erase.ts'
import { inTransaction, type Tx } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { BULK } from '../../support/bulk.ts'
import { wantLookups } from '../../support/want-lookups.ts'
import { claimPendingSql, deleteUnneeded, hasPendingLookups } from '../../../src/store/pending-lookups.ts'

// Pending lookups are leased or become jobs, each once, whatever else takes some of them at the same moment.

const database = useTestDatabase()
beforeEach(() =>
  database.query(`
    truncate fillrate.lookups, fillrate.jobs, fillrate.runs, fillrate.rows restart identity cascade;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    select 'manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)`),
)

/** A transaction that ends with the test, however that ends. */
const begin = async () => {
  const tx = await database.db.startTransaction().setIsolationLevel('read committed').execute()
  onTestFinished(async () => {
    if (!tx.isCommitted && !tx.isRolledBack) await tx.rollback().execute()
  })
  return tx
}

const [RUN, OTHER] = [1, 2]
const MINUTE = 60_000

const toLookups = (count: number, kind: 'email' | 'domain' = 'email') =>
  Array.from({ length: count }, (_, n) => ({
    kind,
    key: `${n}@x.example`,
    input: { email: `${n}@x.example` },
  }))
const wantIn = (tx: Tx, count: number, run = RUN, running: readonly number[] = [RUN, OTHER]) =>
  wantLookups(tx, toLookups(count), 's', run, running)
const want = (count: number, kind?: 'email' | 'domain') =>
  inTransaction(database.db, (tx) => wantLookups(tx, toLookups(count, kind), 's', RUN, [RUN, OTHER]))

const lease = async (limit: number, token = randomUUID(), after = 0) =>
  (
    await leases.leaseLookups(database.db, {
      run: RUN,
      service: 0,
      bulk: BULK,
      limit,
      after,
      token,
      leaseMs: MINUTE,
    })
  ).map(({ id }) => id)

const createJobs = ({
  count = 5,
  least = 1,
  run = RUN,
  kinds = ['email'] as readonly LookupKind[],
  token = randomUUID() as string,
  db = database.db as Parameters<typeof jobs.createJobs>[0],
} = {}) =>
  jobs.createJobs(db, {
    run,
    service: 0,
    kinds,
    ids: Array.from({ length: count }, () => randomUUID()),
    least,
    token,
    leaseMs: MINUTE,
    deadlineMs: MINUTE,
  })

const sizes = (made: readonly jobs.OutgoingJob[]): number[] => made.map((job) => job.emails.length)

const countPending = () => database.count('fillrate.lookups where is_pending')

const states = () =>
  database.scalar(
    `select json_object_agg(state, n) from (select state, count(*)::int as n from fillrate.lookups group by 1) as s`,
  )

/** Lets a row of the run wait for each lookup. */
const addRows = (): Promise<unknown> =>
  database.query(`
    insert into fillrate.rows (source, key, lookup_id, state, run_id)
    select 's', id::text, id, 'waiting', ${RUN} from fillrate.lookups`)

test('new emails become jobs of a hundred, and one of what is left over', async () => {
  await want(250)
  const made = await createJobs()
  expect(sizes(made)).toEqual([100, 100, 50])
  expect(new Set(made.flatMap((job) => job.emails)).size).toBe(250)
  expect(await states()).toEqual({ submitted: 250 })
  expect(await createJobs()).toEqual([])
})

const takers: [string, (tx: Tx) => Promise<number>][] = [
  [
    'a run that picks its row',
    async (tx) => (await wantIn(tx, 1, OTHER, [OTHER])).filter(({ claimed }) => claimed).length,
  ],
  [
    'a run that adopts it',
    async (tx) => {
      await sql`update fillrate.rows set run_id = ${OTHER} where key = '1'`.execute(tx)
      return lookups.adoptLookups(tx, { run: OTHER, service: 0 }, [OTHER])
    },
  ],
  [
    'the deletion of its row',
    async (tx) => {
      await markRowsDeleted(tx, 's', ['1'], false)
      return 1 - (await sql`select from fillrate.lookups where id = 1`.execute(tx)).rows.length
    },
  ],
]

test.each(takers)(
  '%s takes a lookup from a hundred that wait, and the others are submitted',
  async (_, take) => {
    await want(100)
    await addRows()
    expect(await inTransaction(database.db, take)).toBe(1)
    expect((await createJobs()).flatMap((job) => job.emails)).toHaveLength(99)
  },
)

test.each(takers)('%s, before it commits, keeps its lookup from becoming part of a job', async (_, take) => {
  await want(100)
  await addRows()
  const taking = await begin()
  expect(await take(taking)).toBe(1)
  expect(sizes(await createJobs())).toEqual([99])
  await taking.commit().execute()
  expect(await createJobs()).toEqual([])
})

test.each(takers)('%s waits for a hundred that become a job, and takes none of them', async (_, take) => {
  await want(100)
  await addRows()
  const submitting = await begin()
  expect(sizes(await createJobs({ db: submitting }))).toEqual([100])
  const taken = inTransaction(database.db, take)
  await database.untilBlocked()
  await submitting.commit().execute()
  expect(await taken).toBe(0)
  expect(await states()).toEqual({ submitted: 100 })
})

test('a lookup that another transaction inserts at the same moment, beside one that is known, is requested once', async () => {
  await inTransaction(database.db, async (tx) => wantLookups(tx, [known], 's', OTHER, [OTHER]))
  const first = await begin()
  await wantIn(first, 100)
  const second = await begin()
  const wanted = wantLookups(second, [...toLookups(8).slice(7), known], 's', OTHER, [OTHER])
  await database.untilBlocked()
  await first.commit().execute()
  expect((await wanted).map(({ claimed }) => claimed)).toEqual([true, false])
  expect(sizes(await createJobs())).toEqual([99])
  await second.commit().execute()
  expect(sizes(await createJobs({ run: OTHER }))).toEqual([2])
})

const known = { kind: 'email' as const, key: 'known@x.example', input: { email: 'known@x.example' } }

test('an address that is being erased is in no job', async () => {
  await want(100)
  const erasing = await begin()
  await eraseLookups(erasing, [7])
  expect(sizes(await createJobs())).toEqual([99])
  await erasing.commit().execute()
  expect(await createJobs()).toEqual([])
})

test('pending lookups are taken in their order; the others before emails', async () => {
  await want(250)
  await want(3, 'domain')
  expect(await lease(5)).toEqual([1, 2, 251, 252, 253])
  const made = await createJobs({ count: 2 })
  expect(sizes(made)).toEqual([100, 100])
  expect(await countPending()).toBe(48)
  // Too few for a job: they stay.
  expect(await createJobs({ count: 1, least: 50 })).toEqual([])
  expect(await lease(100)).toHaveLength(48)
  expect(await hasPendingLookups(database.db, { run: RUN, service: 0 })).toBe(false)
})

test('what is of another run or service is not taken, and what is not due yet is taken then', async () => {
  await want(6)
  await database.query(`
    update fillrate.lookups set service_id = 1 where id = 1;
    update fillrate.lookups set run_id = null where id = 2;
    update fillrate.lookups set run_id = ${OTHER} where id = 3;
    update fillrate.lookups set not_before = now() + interval '1 hour' where id = 4`)
  expect(await lease(10)).toEqual([5, 6])
  await database.query('update fillrate.lookups set not_before = null')
  expect(await lease(10)).toEqual([4])
})

test('a claim goes on behind what was leased last', async () => {
  await want(6)
  const after = (id: number) => lease(2, randomUUID(), id)
  expect([await after(3), await after(5), await after(6), await after(0)]).toEqual([[4, 5], [6], [], [1, 2]])
})

test('released, expired and requeued lookups are pending again', async () => {
  await want(3)
  const token = randomUUID()
  expect(await lease(1, token)).toEqual([1])
  await leases.releaseByToken(database.db, token)
  expect(await lease(3)).toEqual([1, 2, 3])
  expect(await lookups.releaseExpiredLookups(database.db, 10)).toBe(0)
  await database.query(`update fillrate.lookups set leased_until = now() - interval '1 s'`)
  expect(await lookups.releaseExpiredLookups(database.db, 10)).toBe(3)

  const [job] = await createJobs({ count: 1 })
  expect(await hasPendingLookups(database.db, { run: RUN, service: 0 })).toBe(false)
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(3)
  // Not those of another job since.
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(0)
  expect(await lease(10)).toEqual([1, 2, 3])
})

test.each<[string, () => Promise<number>]>([
  ['leased', async () => (await lease(10)).length],
  ['put into jobs', async () => (await createJobs({ count: 1 })).flatMap(({ emails }) => emails).length],
])('a lookup that another transaction has locked is not %s, and stays', async (_, take) => {
  await want(3)
  const other = await begin()
  await sql`select from fillrate.lookups where id = 2 for update`.execute(other)
  expect(await take()).toBe(2)
  expect(await take()).toBe(0)
  await other.rollback().execute()
  expect(await take()).toBe(1)
})

test('a lookup that changes after the statement began is claimed once, by the next one if it is pending', async () => {
  await want(5)
  // The statement waits for this lock while it reads, with the snapshot that it has taken.
  const other = await begin()
  await sql`select pg_advisory_xact_lock(77)`.execute(other)
  const claim = claimPendingSql({
    run: RUN,
    service: 0,
    limit: sql`10`,
    bulk: [],
    single: ['email'],
    condition: sql`(select pg_advisory_xact_lock_shared(77) from (select l.id offset 0) one) is not null`,
  })
  const taken = sql<{ id: number }>`select id from (${claim}) c`.execute(database.db)
  await database.untilBlocked()
  await database.query(`
    update fillrate.lookups set state = 'found', record = '{}', resolved_at = now() where id = 1;
    update fillrate.lookups set state = 'leased', lease_token = gen_random_uuid(), leased_until = now() + interval '1 min' where id = 2;
    update fillrate.lookups set attempts = 1 where id = 3;
    delete from fillrate.lookups where id = 4`)
  await other.commit().execute()
  expect((await taken).rows).toEqual([{ id: 5 }])
  expect(await lease(10)).toEqual([3, 5])
})

test('of two statements at once, the second takes what the first has left', async () => {
  await want(250)
  const first = await begin()
  const options = { run: RUN, service: 0, bulk: BULK, limit: 120, leaseMs: MINUTE }
  const leased = await leases.leaseLookups(first, { ...options, token: randomUUID() })
  const made = await createJobs({ count: 2 })
  await first.commit().execute()
  const emails = made.flatMap((job) => job.emails)
  const all = new Set([...leased.map(({ input }) => input['email']), ...emails])
  expect([leased.length, emails.length, all.size]).toEqual([120, 80, 200])
  expect(await countPending()).toBe(50)
})

const INPUTS = {
  email: (n: number) => ({ email: `${n}@x.example` }),
  linkedin_url: (n: number) => ({ linkedin_url: `https://www.linkedin.com/in/p${n}` }),
  name_company: (n: number) => ({ name: `Person ${n}`, company: 'X' }),
  domain: (n: number) => ({ domain: `c${n}.example` }),
} as const satisfies Record<LookupKind, (n: number) => object>
const wantKinds = (...kinds: readonly LookupKind[]) =>
  inTransaction(database.db, (tx) => {
    const wanted = kinds.map((kind, n) => ({ kind, key: `${n} ${kind}`, input: INPUTS[kind](n) }))
    return wantLookups(tx, wanted, 's', RUN, [RUN, OTHER])
  })
const MIXED = ['email', 'linkedin_url', 'name_company', 'domain', 'email', 'name_company', 'domain'] as const
const PEOPLE: readonly LookupKind[] = ['email', 'name_company']

test('a job carries the kinds that its endpoint takes, and none that left one before', async () => {
  await wantKinds(...MIXED)
  await database.query('update fillrate.lookups set sync_only = true where id = 5')
  const enough = (kinds: readonly LookupKind[], least: number) => ({ kinds, least })
  const routes = [enough(PEOPLE, 3), enough(PEOPLE, 4), enough(['domain'], 2), enough(['domain'], 3)]
  const { hasNew } = await jobs.findSubmittable(database.db, { run: RUN, service: 0 }, routes)
  expect(hasNew).toEqual([true, false, true, false])
  const [people] = await createJobs({ kinds: PEOPLE })
  expect(people?.inputs).toEqual([
    { email: '0@x.example' },
    { name: 'Person 2', company: 'X' },
    { name: 'Person 5', company: 'X' },
  ])
  expect(people?.emails).toEqual(['0@x.example', '', ''])
  const [companies] = await createJobs({ kinds: ['domain'] })
  expect(companies?.inputs).toEqual([{ domain: 'c3.example' }, { domain: 'c6.example' }])
  expect(await lease(10)).toEqual([2, 5])
  expect(await database.query('select size, is_company from fillrate.jobs order by is_company')).toEqual([
    { size: 3, is_company: false },
    { size: 2, is_company: true },
  ])
})

test('what may go in bulk is leased after the rest, while it makes no job, and by its endpoint', async () => {
  await wantKinds(...MIXED)
  const leaseOf = async (options: Partial<leases.LeaseOptions>) => {
    const token = randomUUID()
    const all = { run: RUN, service: 0, limit: 10, token, leaseMs: MINUTE, ...options }
    const leased = await leases.leaseLookups(database.db, all)
    await leases.releaseByToken(database.db, token)
    return leased.map(({ id }) => id)
  }
  const bulk = (people: boolean | number, companies: boolean | number) => ({
    bulk: [
      { kinds: PEOPLE, singly: people },
      { kinds: ['domain' as const], singly: companies },
    ],
  })
  expect(await leaseOf({})).toEqual([1, 2, 3, 4, 5, 6, 7])
  expect(await leaseOf(bulk(false, false))).toEqual([2])
  expect(await leaseOf(bulk(4, 3))).toEqual([2, 4, 7])
  expect(await leaseOf(bulk(5, 2))).toEqual([1, 2, 3, 5, 6])
  expect(await leaseOf({ ...bulk(true, true), endpoint: 'company' })).toEqual([4, 7])
  expect(await leaseOf({ ...bulk(5, false), endpoint: 'person', limit: 1 })).toEqual([2])
  expect(await leaseOf({ ...bulk(false, true), endpoint: 'person' })).toEqual([2])
})

test('what is erased before its job is posted again leaves it: the places are those of what is sent', async () => {
  await wantKinds('name_company', 'name_company', 'name_company')
  const token = randomUUID()
  await createJobs({ kinds: PEOPLE, token })
  await jobs.releaseJobs(database.db, token)
  await database.query('delete from fillrate.lookups where id = 2')
  const again = await jobs.leaseJobsForRetry(database.db, {
    run: RUN,
    service: 0,
    limit: 9,
    token,
    leaseMs: MINUTE,
  })
  expect(again.map(({ inputs }) => inputs)).toEqual([[INPUTS.name_company(0), INPUTS.name_company(2)]])
  expect(await database.query('select size, lookup_ids::text from fillrate.jobs')).toEqual([
    { size: 2, lookup_ids: '{1,3}' },
  ])
  await jobs.releaseJobs(database.db, token)
  await database.query('delete from fillrate.lookups')
  const none = { run: RUN, service: 0, limit: 9, token: randomUUID(), leaseMs: MINUTE }
  expect(await jobs.leaseJobsForRetry(database.db, none)).toEqual([])
  expect(await database.query('select state from fillrate.jobs')).toEqual([{ state: 'rejected' }])
})

test('what a dry run has left is deleted once it is over, unless a row needs it or it was called', async () => {
  await want(4)
  await database.query(`
    update fillrate.runs set options = '{"dry": true}' where id = ${RUN};
    update fillrate.lookups set attempts = 1 where id = 2;
    insert into fillrate.rows (source, key, lookup_id, state, run_id) values ('s', '3', 3, 'waiting', ${OTHER})`)
  await wantIn(database.db as unknown as Tx, 5, OTHER)
  await deleteUnneeded(database.db)
  expect(await countPending()).toBe(5)
  await database.query(
    `update fillrate.runs set state = 'interrupted', finished_at = now() where id = ${RUN}`,
  )
  await deleteUnneeded(database.db)
  expect(await database.query('select key from fillrate.lookups order by id')).toEqual(
    [1, 2, 4].map((n) => ({ key: `${n}@x.example` })),
  )
})
