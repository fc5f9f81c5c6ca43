import { afterAll, beforeAll, expect, test } from 'vitest'
import * as lookups from '../../../src/store/lookups.ts'
import * as rows from '../../../src/store/rows.ts'
import * as writeBackQueue from '../../../src/store/write-back-queue.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const question = { kind: 'email', key: 'a@b.example', input: { email: 'a@b.example' } } as const

test('a lookup stays queued for a row that is picked while its other rows are written', async () => {
  const { db, pool } = database
  const { rows: runs } = await pool.query<{ id: number }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
     values ('manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour') returning id::int`,
  )
  const run = runs[0]?.id ?? 0
  const [lookup] = await db
    .transaction()
    .execute((tx) => lookups.upsertLookups(tx, [question], run, [run], 0))
  const id = lookup?.id ?? 0
  await pool.query(
    `update fillrate.lookups set state = 'found', record = '{}', resolved_at = now(), refresh_at = now() + interval '90 days'
      where id = $1`,
    [id],
  )
  await pool.query('insert into fillrate.write_back_queue (lookup_id) values ($1)', [id])

  // The pick has inserted its row and not committed; meanwhile, the write-back of the lookup's other rows finishes.
  const { promise: picked, resolve: commit } = Promise.withResolvers<void>()
  const { promise: inserted, resolve: tellInserted } = Promise.withResolvers<void>()
  const picking = db.transaction().execute(async (tx) => {
    await lookups.upsertLookups(tx, [question], run, [run], 0)
    const row = { key: '2', inputHash: 'x', lookup: id, state: 'waiting', reason: null, notes: null } as const
    await rows.claimRows(tx, 's', run, [run], [row], { dry: false, service: 0 })
    tellInserted()
    await picked
  })
  await inserted
  const clearing = db.transaction().execute((tx) => writeBackQueue.dequeueWritten(tx, [id]))
  await untilBlocked(database)
  commit()
  await Promise.all([picking, clearing])

  const { rows: unwritten } = await pool.query(
    'select lookup_id::int as lookup from fillrate.write_back_queue',
  )
  expect(unwritten).toEqual([{ lookup: id }])
})

async function untilBlocked({ pool }: TestDatabase): Promise<void> {
  for (;;) {
    const { rowCount } = await pool.query(
      'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0',
    )
    if (rowCount) return
  }
}
