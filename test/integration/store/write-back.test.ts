import { sql } from 'kysely'
import { expect, test } from 'vitest'
import * as rows from '../../../src/store/rows.ts'
import type { Tx } from '../../../src/store/transaction.ts'
import * as writeBackQueue from '../../../src/store/write-back-queue.ts'
import { useTestDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'
import { wantLookups } from '../../support/want-lookups.ts'

// An answered lookup is queued until each row that waits for it is written, and a written row is finished with its change.

const database = useTestDatabase()

const enqueue = (ids: readonly number[]) =>
  database.query('insert into fillrate.answered_lookups select unnest($1::bigint[])', [ids])

const claim = (tx: Tx) => writeBackQueue.claimForWriteBack(tx, 's', 10)

/** Rows wait for lookups, which are answered. @param rows of each its source, key and lookup */
const answerRows = (rows: string) =>
  database.query(`
    truncate fillrate.rows, fillrate.lookups, fillrate.answered_lookups restart identity cascade;
    insert into fillrate.lookups (kind, key, input, state, record, resolved_at)
    select 'email', n || '@b.example', '{}', 'found', '{}', now() from generate_series(1, 5) n;
    insert into fillrate.rows (source, key, lookup_id, state, input_hash)
    select source, key, lookup, 'waiting', 0 from (values ${rows}) v (source, key, lookup)`)

const listQueued = () =>
  database.scalar('select array_agg(lookup_id::int order by lookup_id) from fillrate.answered_lookups')

const question = { kind: 'email', key: 'a@b.example', input: { email: 'a@b.example' } } as const

test('a lookup stays queued for a row that is picked while its other rows are written', async () => {
  const { db } = database
  const run = await beginRun(db, { sources: ['s'] })
  const [lookup] = await db.transaction().execute((tx) => wantLookups(tx, [question], 's', run, [run]))
  const id = lookup?.id ?? 0
  await database.query(
    `update fillrate.lookups set state = 'found', record = '{}', resolved_at = now(), refresh_at = now() + interval '90 days'
      where id = $1`,
    [id],
  )
  await enqueue([id])

  // The pick has inserted its row and not committed; meanwhile, the write-back of the lookup's other rows finishes.
  const { promise: picked, resolve: commit } = Promise.withResolvers<void>()
  const { promise: inserted, resolve: tellInserted } = Promise.withResolvers<void>()
  const picking = db.transaction().execute(async (tx) => {
    await wantLookups(tx, [question], 's', run, [run])
    const row = {
      key: '2',
      inputHash: '1',
      settledAt: null,
      lookup: id,
      state: 'waiting',
      reason: null,
      notes: null,
    } as const
    await rows.claimRows(tx, 's', run, [run], [row], 0)
    tellInserted()
    await picked
  })
  await inserted
  await db.transaction().execute((tx) => writeBackQueue.dequeueWritten(tx, ['(0,1)']))
  commit()
  await picking

  expect(await db.transaction().execute(claim)).toMatchObject({ rows: [{ key: '2', lookup: id }] })
  // Once, if the lookup is queued twice.
  await enqueue([id])
  const claimed = await db.transaction().execute(claim)
  expect(claimed.rows).toMatchObject([{ key: '2' }])
  expect(claimed.entries).toHaveLength(2)
})

test('what two write-backs leave that finish the last rows of a lookup at once is removed', async () => {
  const { db } = database
  await answerRows(`('s', '1', 1), ('t', '1', 1), ('t', '2', 2)`)
  await enqueue([1, 2])
  const write = async (tx: Tx, source: string): Promise<void> => {
    const { rows: claimed, entries } = await writeBackQueue.claimForWriteBack(tx, source, 1)
    expect(claimed).toMatchObject([{ key: '1' }])
    await sql`update fillrate.rows set state = 'enriched', settled_at = now() where source = ${source} and key = '1'`.execute(
      tx,
    )
    await writeBackQueue.dequeueWritten(tx, entries)
  }
  const [first, second] = await Promise.all([
    db.startTransaction().execute(),
    db.startTransaction().execute(),
  ])
  await write(first, 's')
  await write(second, 't')
  await first.commit().execute()
  await second.commit().execute()

  expect(await listQueued()).toEqual([1, 2])
  await writeBackQueue.dequeueOrphaned(db, 10)
  expect(await listQueued()).toEqual([2])
})

test('a lookup stays queued for waiting rows of other sources, and locked ones', async () => {
  const { db } = database
  await answerRows(`('s', '1', 1), ('s', '2', 2), ('s', '3', 3), ('s', '4', 4), ('t', '1', 2), ('t', '2', 2)`)
  await enqueue([1, 2, 3, 4, 5])
  await enqueue([5, 1])
  const other = await db.startTransaction().execute()
  await sql`select from fillrate.rows where source = 's' and key = '3' for update`.execute(other)
  await db.transaction().execute(async (tx) => {
    const claimed = await claim(tx)
    expect(claimed.rows.map(({ key }) => key).toSorted()).toEqual(['1', '2', '4'])
    await sql`update fillrate.rows set state = 'enriched', settled_at = now()
               where source = 's' and key in ('1', '2', '4')`.execute(tx)
    await writeBackQueue.dequeueWritten(tx, claimed.entries)
  })
  await other.rollback().execute()
  await writeBackQueue.dequeueOrphaned(db, 10)
  expect(await listQueued()).toEqual([2, 3])
})

/** The places of rows 1 and 2, which wait; row 1 has been written before. */
let places: Map<string, string>
const insertRows = async () => {
  await database.query('truncate fillrate.rows, fillrate.changes')
  const rows = await database.query<{ key: string; ctid: string }>(`
    insert into fillrate.rows (source, key, lookup_id, run_id, state, last_written)
    values ('s', '1', 11, 5, 'waiting', '{"title": "Cook", "city": "Bonn"}'), ('s', '2', 12, 5, 'waiting', null)
    returning key, ctid::text`)
  places = new Map(rows.map(({ key, ctid }) => [key, ctid]))
}

const written = (key: string, ctid?: string): writeBackQueue.FinishedRow => ({
  key,
  ctid,
  state: 'enriched',
  reason: null,
  change: {
    before: { title: 'Cook' },
    after: { title: 'Chef', enriched_at: '2026-01-01T00:00:00Z' },
    writtenBefore: { title: 'Cook' },
    earlierBefore: null,
  },
  nextAt: null,
  cells: { written: 1, protected: 0, skipped: 0 },
  skipped: [],
})

const finish = (...finished: writeBackQueue.FinishedRow[]) =>
  database.db.transaction().execute((tx) => writeBackQueue.finishRows(tx, 's', finished, ['enriched_at']))

const statesByKey = (): Promise<unknown> =>
  database.query('select key, state, last_written from fillrate.rows order by key')

test('a row is finished, by its place or by its key, and what was written to it recorded, without touched columns for later', async () => {
  await insertRows()
  await finish(written('1', places.get('1')), written('2'))

  expect(await statesByKey()).toEqual([
    { key: '1', state: 'enriched', last_written: { title: 'Chef', city: 'Bonn' } },
    { key: '2', state: 'enriched', last_written: { title: 'Chef' } },
  ])
  const changes = await database.query(
    'select key, run_id::int, lookup_id::int, before, after, last_written_before from fillrate.changes order by key',
  )
  expect(changes).toEqual(
    ['1', '2'].map((key) => ({
      key,
      run_id: 5,
      lookup_id: Number(key) + 10,
      before: { title: 'Cook' },
      after: { title: 'Chef', enriched_at: '2026-01-01T00:00:00Z' },
      last_written_before: { title: 'Cook' },
    })),
  )
})

test('a place that has become that of another row finishes none, and a write whose change is not recorded is undone', async () => {
  await insertRows()
  await expect(finish(written('1', places.get('2')))).rejects.toThrow(
    /1 rows .* written, and 0 of their changes/,
  )
  expect(await statesByKey()).toMatchObject([{ state: 'waiting' }, { state: 'waiting' }])

  // Without a write, a row that no longer waits is skipped.
  await finish({ ...written('1', places.get('2')), change: null })
  expect(await statesByKey()).toMatchObject([{ state: 'waiting' }, { state: 'waiting' }])
})

test('the sources with something to write are listed, as far as the queue is short', async () => {
  const { db } = database
  await database.query('truncate fillrate.answered_lookups, fillrate.rows, fillrate.lookups cascade')
  const id = await beginRun(database.db, { sources: ['a', 'b'] })
  for (const [source, key] of [
    ['a', 'a@b.example'],
    ['b', 'b@b.example'],
    ['c', 'c@b.example'],
  ] as const) {
    const wanted = { kind: 'email', key, input: { email: key } } as const
    const lookup = await db.transaction().execute(async (tx) => {
      const [one] = await wantLookups(tx, [wanted], source, id, [id])
      const row = {
        key,
        inputHash: '1',
        settledAt: null,
        state: 'waiting',
        reason: null,
        notes: null,
      } as const
      if (source !== 'c') await rows.claimRows(tx, source, id, [id], [{ ...row, lookup: one?.id ?? 0 }], 0)
      return one?.id ?? 0
    })
    if (source !== 'b') await enqueue([lookup])
  }
  // b has no answer, and c no row.
  expect(await writeBackQueue.listQueuedSources(db, 10)).toEqual(new Set(['a']))
  expect(await writeBackQueue.listQueuedSources(db, 1)).toBeNull()
})
