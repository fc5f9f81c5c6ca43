import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { markRowsDeleted } from '../../../src/store/deleted-rows.ts'
import { eraseLookups } from '../../../src/store/erase.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import { listLookupHistory } from '../../../src/store/row-history.ts'
import { readLookupTotals, readWaitingCounts } from '../../../src/store/run-progress.ts'
import { inTransaction, type Tx } from '../../../src/store/transaction.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { wantLookups } from '../../support/want-lookups.ts'

// Pending emails become jobs, whatever else takes some of them at the same moment.

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(async () => {
  await database.pool.query(`
    truncate fillrate.lookups, fillrate.pending_lookups, fillrate.lookup_leases, fillrate.jobs, fillrate.runs, fillrate.rows restart identity cascade;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    select 'manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)`)
})

/** Those that a failed test has left open. */
const open = new Set<Awaited<ReturnType<typeof begin>>>()
afterEach(async () => {
  for (const tx of open) if (!tx.isCommitted) await tx.rollback().execute()
  open.clear()
})

const begin = async () => {
  const tx = await database.db.startTransaction().setIsolationLevel('read committed').execute()
  open.add(tx)
  return tx
}

const [RUN, OTHER] = [1, 2]
const MINUTE = 60_000

const emails = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    kind: 'email' as const,
    key: `${n}@x.example`,
    input: { email: `${n}@x.example` },
  }))

const want = (tx: Tx, count: number, run = RUN, running: readonly number[] = [RUN, OTHER]) =>
  wantLookups(tx, emails(count), 's', run, running)

const createJobs = (run = RUN, db: Parameters<typeof jobs.createJobs>[0] = database.db) =>
  jobs.createJobs(db, {
    run,
    ids: Array.from({ length: 5 }, () => randomUUID()),
    least: 1,
    token: randomUUID(),
    leaseMs: MINUTE,
    deadlineMs: MINUTE,
  })

const sizes = (made: readonly jobs.OutgoingJob[]): number[] => made.map((job) => job.emails.length)

const states = async (): Promise<Record<string, number>> => {
  const rows = await database.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from fillrate.lookups group by state order by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

/** Lets a row of the run wait for each lookup. */
const addRows = (): Promise<unknown> =>
  database.pool.query(`
    insert into fillrate.rows (source, key, lookup_id, state, run_id)
    select 's', id::text, id, 'waiting', ${RUN} from fillrate.lookups`)

test('new emails become jobs of a hundred, and one of what is left over', async () => {
  await inTransaction(database.db, (tx) => want(tx, 250))
  const made = await createJobs()
  expect(sizes(made)).toEqual([100, 100, 50])
  expect(new Set(made.flatMap((job) => job.emails)).size).toBe(250)
  expect(await states()).toEqual({ submitted: 250 })
  const rows = await database.query('select from fillrate.pending_lookups')
  expect(rows).toEqual([])
  expect(await createJobs()).toEqual([])
})

test('a job has no lookup that is gone', async () => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  await database.pool.query('delete from fillrate.lookups where id = 7')
  expect(sizes(await createJobs())).toEqual([99])
  expect(await states()).toEqual({ submitted: 99 })
})

test('the members of a job count as submitted wherever that matters', async () => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  await addRows()
  const done = { id: RUN, isDryRun: false, cascading: [] }
  const read = () => readWaitingCounts(database.db, done, ['s'], [OTHER])
  expect(await read()).toMatchObject({ mine: 100, forDelivery: 0, abandoned: 100 })
  const [job] = await createJobs()
  expect(await read()).toMatchObject({ mine: 100, forDelivery: 100, abandoned: 0 })
  expect(await readLookupTotals(database.db, RUN)).toMatchObject({ requested: 100 })
  expect(await listLookupHistory(database.db, [1])).toMatchObject([{ state: 'submitted', job: job?.id }])

  // Its run is dead: no other one requests it again, and it is not withdrawn with its row.
  const seen = await inTransaction(database.db, (tx) => want(tx, 100, OTHER, [OTHER]))
  expect(seen.filter((one) => one.claimed)).toEqual([])
  await database.pool.query(`update fillrate.rows set run_id = ${OTHER}`)
  const left = { all: 1_000, bySource: {} }
  const adopted = await inTransaction(database.db, (tx) => lookups.adoptLookups(tx, OTHER, [OTHER], left))
  expect(adopted.adopted).toBe(0)
  await inTransaction(database.db, (tx) =>
    markRowsDeleted(tx, 's', ['1'], { isKept: false, mayBeHidden: false }),
  )
  expect(await states()).toEqual({ submitted: 100 })

  // Rejected, they are queued again, and are submitted no more.
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(100)
  expect(await lookups.requeueMembers(database.db, [job?.id ?? ''], 'rejected')).toBe(0)
  expect(await listLookupHistory(database.db, [1])).toMatchObject([{ state: 'pending', job: null }])
  expect(await readLookupTotals(database.db, RUN)).toMatchObject({ requested: 100 })
})

test('a lookup that was leased from a hundred, and came back, becomes a job with the others all the same', async () => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  const token = randomUUID()
  const one = { run: RUN, emails: true, limit: 1, token, leaseMs: MINUTE }
  expect(await leases.leaseLookups(database.db, one)).toHaveLength(1)
  await leases.releaseByToken(database.db, token)
  expect(sizes(await createJobs())).toEqual([100])
  expect(await states()).toEqual({ submitted: 100 })
})

const takers: [string, (tx: Tx) => Promise<number>][] = [
  [
    'a run that picks its row',
    async (tx) => (await want(tx, 1, OTHER, [OTHER])).filter(({ claimed }) => claimed).length,
  ],
  [
    'a run that adopts it',
    async (tx) => {
      await tx.updateTable('fillrate.rows').set({ run_id: OTHER }).where('key', '=', '1').execute()
      return (await lookups.adoptLookups(tx, OTHER, [OTHER], { all: 10, bySource: {} })).adopted
    },
  ],
  [
    'the deletion of its row',
    async (tx) => {
      await markRowsDeleted(tx, 's', ['1'], { isKept: false, mayBeHidden: false })
      const left = await tx.selectFrom('fillrate.lookups').where('id', '=', 1).execute()
      return 1 - left.length
    },
  ],
]

test.each(takers)(
  '%s takes a lookup from a hundred that wait, and the others are submitted',
  async (_, take) => {
    await inTransaction(database.db, (tx) => want(tx, 100))
    await addRows()
    expect(await inTransaction(database.db, take)).toBe(1)
    expect((await createJobs()).flatMap((job) => job.emails)).toHaveLength(99)
  },
)

test.each(takers)('%s, before it commits, keeps its lookup from becoming part of a job', async (_, take) => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  await addRows()
  const taking = await begin()
  expect(await take(taking)).toBe(1)
  expect(sizes(await createJobs())).toEqual([99])
  await taking.commit().execute()
  expect(await createJobs()).toEqual([])
})

test.each(takers)('%s waits for a hundred that become a job, and takes none of them', async (_, take) => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  await addRows()
  const submitting = await begin()
  expect(sizes(await createJobs(RUN, submitting))).toEqual([100])
  const taken = inTransaction(database.db, take)
  await database.untilBlocked()
  await submitting.commit().execute()
  expect(await taken).toBe(0)
  expect(await states()).toEqual({ submitted: 100 })
})

test('a lookup that another transaction inserts at the same moment, beside one that is known, is requested once', async () => {
  await inTransaction(database.db, async (tx) => wantLookups(tx, [known], 's', OTHER, [OTHER]))
  const first = await begin()
  await want(first, 100)
  const second = await begin()
  const wanted = wantLookups(second, [...emails(8).slice(7), known], 's', OTHER, [OTHER])
  await database.untilBlocked()
  await first.commit().execute()
  expect((await wanted).map(({ claimed }) => claimed)).toEqual([true, false])
  expect(sizes(await createJobs())).toEqual([99])
  await second.commit().execute()
  expect(sizes(await createJobs(OTHER))).toEqual([2])
})

const known = { kind: 'email' as const, key: 'known@x.example', input: { email: 'known@x.example' } }

test('an address that is being erased is in no job', async () => {
  await inTransaction(database.db, (tx) => want(tx, 100))
  const erasing = await begin()
  await eraseLookups(erasing, [7])
  expect(sizes(await createJobs())).toEqual([99])
  await erasing.commit().execute()
  expect(await createJobs()).toEqual([])
})

test('a lookup that another transaction inserts at the same moment is waited for, and left to it', async () => {
  const first = await begin()
  await want(first, 1)
  const second = inTransaction(database.db, (tx) => want(tx, 2, OTHER))
  await database.untilBlocked()
  await first.commit().execute()
  expect((await second).map(({ claimed }) => claimed)).toEqual([false, true])
})
