import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { finishRows, type FinishedRow } from '../../../src/store/write-back-queue.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/** The places of rows 1 and 2, which wait; row 1 has been written before. */
let places: Map<string, string>
beforeEach(async () => {
  await database.pool.query('truncate fillrate.rows, fillrate.changes')
  const rows = await database.query<{ key: string; ctid: string }>(`
    insert into fillrate.rows (source, key, lookup_id, run_id, state, last_written)
    values ('s', '1', 11, 5, 'waiting', '{"title": "Cook", "city": "Bonn"}'), ('s', '2', 12, 5, 'waiting', null)
    returning key, ctid::text`)
  places = new Map(rows.map(({ key, ctid }) => [key, ctid]))
})

const written = (key: string, ctid?: string): FinishedRow => ({
  key,
  ctid,
  state: 'enriched',
  reason: null,
  change: {
    before: { title: 'Cook' },
    after: { title: 'Chef', enriched_at: '2026-01-01T00:00:00Z' },
    writtenBefore: { title: 'Cook' },
  },
  notes: null,
  nextAt: null,
  cells: { written: 1, protected: 0, skipped: 0 },
  skipped: [],
})

const finish = (...finished: FinishedRow[]) =>
  database.db.transaction().execute((tx) => finishRows(tx, 's', finished, ['enriched_at']))

const statesByKey = async (): Promise<unknown> => {
  const rows = await database.query('select key, state, last_written from fillrate.rows order by key')
  return rows
}

test('a row is finished, by its place or by its key, and what was written to it recorded, without touched columns for later', async () => {
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
  await expect(finish(written('1', places.get('2')))).rejects.toThrow(
    /1 rows .* written, and 0 of their changes/,
  )
  expect(await statesByKey()).toMatchObject([{ state: 'waiting' }, { state: 'waiting' }])

  // Without a write, a row that no longer waits is skipped.
  await finish({ ...written('1', places.get('2')), change: null })
  expect(await statesByKey()).toMatchObject([{ state: 'waiting' }, { state: 'waiting' }])
})
