import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sql } from 'kysely'
import { fitRecord } from '../../../src/sources/fit/record.ts'
import { keysQuery } from '../../../src/sources/page.ts'
import { openSource, type Source } from '../../../src/sources/source.ts'
import { writeBatch, type WriteResult } from '../../../src/sources/write.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => {
  await database.drop()
})
beforeEach(async () => {
  await database.pool.query(`
    drop table if exists people;
    create table people (
      id int primary key, email text, title text, phone varchar(12), score numeric(5,2), attributes jsonb,
      tags text[], level int, updated_at timestamptz, confidence float8)`)
})

/** Writes one record to the rows with these keys, as the pipeline does: hash first, then fit, then write. */
async function write(
  source: Source,
  keys: readonly string[],
  record: unknown,
  options: { written?: Record<string, unknown>; confidence?: number } = {},
): Promise<WriteResult[]> {
  const { rows } = await keysQuery(source, keys).execute(database.db)
  const confidence = options.confidence ?? 0.9
  const { values } = fitRecord(source, record, confidence)
  const batch = rows
    .toSorted((a, b) => keys.indexOf(a.key) - keys.indexOf(b.key))
    .map((row) => ({
      key: row.key,
      inputHash: row.input_hash,
      values,
      written: options.written ?? null,
      confidence,
    }))
  return await database.db.transaction().execute((tx) => writeBatch(tx, source, batch))
}

const insert = (values: string): Promise<unknown> =>
  database.pool.query(`insert into people (id, email, title, phone, attributes, tags, level) values ${values}`)

const row = async (id: number): Promise<Record<string, unknown>> =>
  (await database.pool.query('select * from people where id = $1', [id])).rows[0] as Record<string, unknown>

test('one statement writes blank cells and tells what they held', async () => {
  await insert(`(1, 'a@x.no', null, '', null, '{}', 0), (2, 'b@x.no', 'Typed', '1', null, '{a}', null)`)
  const source = await openSource(
    database.db,
    mapping({
      outputs: [output('title', 'title'), output('phone', 'phone'), output('attributes.work.dept', 'department')],
      touch: { updated_at: 'now()', confidence: '$confidence' },
    }),
  )
  const record = { title: 'CTO', phone: '+4712345678', department: 'IT' }
  database.statements()
  const [first, second] = await write(source, ['1', '2'], record)
  expect(first).toMatchObject({
    outcome: 'written',
    before: { phone: '' },
    after: { title: 'CTO', phone: '+4712345678', 'attributes.work.dept': 'IT', confidence: 0.9 },
    kept: 0,
  })
  expect(second).toMatchObject({ outcome: 'written', kept: 2, keptColumns: ['title', 'phone'] })
  expect(await row(1)).toMatchObject({ title: 'CTO', attributes: { work: { dept: 'IT' } }, confidence: 0.9 })
  expect(await row(2)).toMatchObject({ title: 'Typed', phone: '1', attributes: { work: { dept: 'IT' } } })
  const sent = database.statements()
  expect(sent.filter((text) => text.includes('update'))).toHaveLength(1)
})
