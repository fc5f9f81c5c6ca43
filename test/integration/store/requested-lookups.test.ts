import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { markRowsDeleted } from '../../../src/store/deleted-rows.ts'
import { eraseLookups } from '../../../src/store/erase.ts'
import * as jobs from '../../../src/store/jobs.ts'
import { adoptLookups, requeueMembers } from '../../../src/store/lookups.ts'
import { listLookupHistory } from '../../../src/store/row-history.ts'
import { hasAnsweredLookups, readLookupTotals, readWaitingCounts } from '../../../src/store/run-progress.ts'
import { inTransaction, type Tx } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { wantLookups } from '../../support/want-lookups.ts'

// Which lookups a run requests, and for which run each of them counts.

const database = useTestDatabase()
beforeEach(async () => {
  await database.query(`
    truncate fillrate.lookups, fillrate.jobs, fillrate.runs, fillrate.rows, fillrate.spend,
             fillrate.suppressions restart identity cascade;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    select 'manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)`)
})

const [RUN, OTHER] = [1, 2]

/** A run picks these people: those whose lookups it has to request are its rows. */
async function want(from: number, to: number, run = RUN, running: readonly number[] = [RUN, OTHER]) {
  const wanted = await inTransaction(database.db, (tx) => wantIn(tx, from, to, run, running))
  await database.query(`
    insert into fillrate.rows (source, key, lookup_id, state, run_id)
    select 's', l.id, l.id, 'waiting', ${run} from fillrate.lookups l where id between ${from} and ${to} and run_id = ${run}
    on conflict (source, key) do update set run_id = excluded.run_id`)
  return wanted
}
const wantIn = (tx: Tx, from: number, to: number, run: number, running: readonly number[] = [RUN, OTHER]) =>
  wantLookups(
    tx,
    Array.from({ length: to - from + 1 }, (_, n) => {
      const email = `${String(from + n).padStart(4, '0')}@x.example`
      return { kind: 'email' as const, key: email, input: { email } }
    }),
    's',
    run,
    running,
  )

const answer = (ids: string, state = 'found'): Promise<unknown> =>
  database.query(`
    update fillrate.lookups set state = '${state}', record = '{}', job_key = null, requested_at = now(), resolved_at = now(),
           refresh_at = now() + interval '1 day'
     where id in (${ids})`)

const makeDue = (ids: string): Promise<unknown> =>
  database.query(`update fillrate.lookups set refresh_at = now() where id in (${ids})`)

const totals = (run: number) => readLookupTotals(database.db, run)

test('a lookup that a run requests twice counts once', async () => {
  await want(1, 4)
  await answer('1, 2')
  await makeDue('1')
  await want(1, 4)
  await answer('1', 'not_found')
  expect(await totals(RUN)).toMatchObject({ requested: 2, found: 1, not_found: 1 })
})

test('a lookup counts for the run that requested it last', async () => {
  await want(1, 3)
  await answer('1, 2, 3')
  await makeDue('2')
  await want(2, 2, OTHER)
  await answer('2', 'rejected')
  expect(await totals(RUN)).toMatchObject({ requested: 2, found: 2, rejected: 0 })
  expect(await totals(OTHER)).toMatchObject({ requested: 1, found: 0, rejected: 1 })
})

test('an adopted lookup counts for the run that adopted it', async () => {
  await want(1, 4)
  await answer('1')
  await database.query(`update fillrate.rows set run_id = ${OTHER} where key in ('2', '3')`)
  expect(await adoptLookups(database.db, { run: OTHER, service: 0 }, [OTHER])).toBe(2)
  await answer('2, 3')
  expect(await totals(RUN)).toMatchObject({ requested: 1, found: 1 })
  expect(await totals(OTHER)).toMatchObject({ requested: 2, found: 2 })
})

test('a deleted lookup counts no more, and its identifier is found under no other', async () => {
  await want(1, 3)
  await answer('1, 2, 3')
  await inTransaction(database.db, (tx) => eraseLookups(tx, [1]))
  await database.query('delete from fillrate.lookups where id = 2')
  expect(await totals(RUN)).toMatchObject({ distinct: 1, requested: 1, found: 1 })
})

test('the lookups that the rows of a run needed are counted once, and those of them that were stored', async () => {
  await want(1, 6, OTHER)
  await answer('1, 2')
  await answer('3', 'not_found')
  await want(7, 9)
  await answer('7')
  await answer('8', 'not_found')
  await database.query('update fillrate.lookups set run_id = null where id = 1')
  await database.query(`
    insert into fillrate.rows (source, key, lookup_id, missed_lookup_ids, state, run_id) values
      ('s', 'own', 7, '{}', 'waiting', ${RUN}), ('s', 'own too', 7, '{8}', 'waiting', ${RUN}),
      ('s', 'stored', 1, '{3}', 'waiting', ${RUN}), ('s', 'stored too', 1, '{3,8}', 'waiting', ${RUN}),
      ('s', 'of another', 4, '{}', 'waiting', ${RUN}), ('s', 'not requested yet', 9, '{}', 'waiting', ${RUN}),
      ('s', 'deleted', 99, '{98}', 'waiting', ${RUN}), ('s', 'of no run', 2, '{}', 'waiting', ${OTHER})`)
  // 1 and 3 were stored; 4 is requested by the other run; 7 and 8 by this one, and 9 will be.
  expect(await totals(RUN)).toEqual({
    distinct: 6,
    stored: 2,
    requested: 2,
    found: 1,
    not_found: 1,
    rejected: 0,
    failed: 0,
    in_doubt: 0,
  })
  expect(await totals(99)).toMatchObject({ distinct: 0, stored: 0, requested: 0, in_doubt: 0 })
})

test('a run has an answer of a service once one of its own calls there was billed', async () => {
  await database.query(`
    insert into fillrate.spend (run_id, service_id, source, endpoint, lookups)
    values (${RUN}, 0, 's', 'person', 0), (${RUN}, 1, 's', 'person', 1), (${OTHER}, 0, 's', 'person', 1)`)
  const isAnswered = () => hasAnsweredLookups(database.db, { run: RUN, service: 0 })
  expect(await isAnswered()).toBe(false)
  await database.query(`update fillrate.spend set lookups = 1 where run_id = ${RUN} and service_id = 0`)
  expect(await isAnswered()).toBe(true)
})

test('what a run that was deleted has left pending is requested by the next one', async () => {
  await want(1, 3)
  await answer('1')
  await database.query(`delete from fillrate.runs where id = ${RUN}`)
  const upserted = await want(1, 3, OTHER, [OTHER])
  expect(upserted.filter(({ claimed }) => claimed).map(({ id }) => id)).toEqual([2, 3])
  await answer('2, 3')
  expect(await totals(OTHER)).toMatchObject({ distinct: 2, requested: 2, found: 2 })
})

test('a lookup that another transaction inserts at the same moment is waited for, and left to it', async () => {
  const first = await database.db.startTransaction().execute()
  try {
    await wantIn(first, 1, 1, RUN)
    const second = want(1, 2, OTHER)
    await database.untilBlocked()
    await first.commit().execute()
    expect((await second).map(({ claimed }) => claimed)).toEqual([false, true])
  } finally {
    if (!first.isCommitted) await first.rollback().execute()
  }
})

test('the members of a job count as submitted wherever that matters', async () => {
  await want(1, 100)
  const read = async () => (await readWaitingCounts(database.db, RUN, ['s'], [OTHER])).at(0)
  const countSubmitted = () => database.count(`fillrate.lookups where state = 'submitted'`)
  expect(await read()).toMatchObject({ mine: 100, forDelivery: 0, abandoned: 100 })
  const job = randomUUID()
  const term = { token: randomUUID(), leaseMs: 60_000, deadlineMs: 60_000 }
  expect(
    await jobs.createJobs(database.db, { run: RUN, service: 0, ids: [job], least: 1, ...term }),
  ).toHaveLength(1)
  expect(await read()).toMatchObject({ mine: 100, forDelivery: 100, abandoned: 0 })
  expect(await totals(RUN)).toMatchObject({ requested: 100 })
  expect(await listLookupHistory(database.db, [1])).toMatchObject([{ state: 'submitted', job }])

  // Its run is dead: no other one requests it again, and it is not withdrawn with its row.
  expect((await want(1, 100, OTHER, [OTHER])).filter((one) => one.claimed)).toEqual([])
  await database.query(`update fillrate.rows set run_id = ${OTHER}`)
  expect(await adoptLookups(database.db, { run: OTHER, service: 0 }, [OTHER])).toBe(0)
  await inTransaction(database.db, (tx) => markRowsDeleted(tx, 's', ['1'], false))
  expect(await countSubmitted()).toBe(100)

  // Rejected, they are queued again, and are submitted no more.
  expect(await requeueMembers(database.db, [job], 'rejected')).toBe(100)
  expect(await requeueMembers(database.db, [job], 'rejected')).toBe(0)
  expect(await listLookupHistory(database.db, [1])).toMatchObject([{ state: 'pending', job: null }])
  expect(await totals(OTHER)).toMatchObject({ distinct: 100, stored: 0, requested: 0 })
})
