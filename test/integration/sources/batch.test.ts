import { beforeAll, expect, test } from 'vitest'
import { coerceRecord } from '../../../src/sources/coerce/record.ts'
import { query } from '../../../src/sources/db.ts'
import { keysQuery } from '../../../src/sources/page.ts'
import { openSource } from '../../../src/sources/source.ts'
import { batchJson, batchParameters } from '../../../src/sources/write/batch.ts'
import { resultReader, rowUpdateStatement } from '../../../src/sources/write/statement.ts'
import { writeUpdate } from '../../../src/sources/write/write-update.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { readPage } from './writing.ts'

const database = useTestDatabase()

beforeAll(async () => {
  await database.query(`
    create type stage as enum ('new', 'old');
    create table people (
      id int primary key, email text, title text, code varchar(3), small smallint, big bigint, price numeric, ratio double precision,
      flag boolean, born date, seen timestamptz, ref uuid, stage stage, bits bit(3), span interval, tags text[], numbers int[],
      raw json, data jsonb, doubled numeric, sure text, at timestamptz);
    insert into people (id, email, title) values (1, 'a', null), (2, 'b', 'typed'), (3, 'c', 'filled'), (4, 'd', ''), (5, 'e', null)`)
})
const COLUMNS = `code small big price ratio flag born seen ref stage bits span tags numbers raw`.split(' ')

const RECORD = {
  title: 'O’Neil "x" \\ {a,b} 😀',
  code: 'ab"',
  small: -3,
  big: '9223372036854775807',
  price: 1e21,
  ratio: 1e-7,
  flag: 'yes',
  born: '2026-11-21',
  seen: '2026-11-21T10:00:00.123456+02:00',
  ref: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  stage: 'old',
  bits: '101',
  span: '1 day',
  tags: ['a "b"', 'c,d', null],
  numbers: [1, '2'],
  raw: { b: 1.5, a: [null] },
  doubled: 1.25,
}

test('a batch as arrays gives what it gives as JSON', async () => {
  const source = await openSource(
    database.db,
    mapping({
      outputs: [
        output('title', 'title', { policy: 'tracked' }),
        ...COLUMNS.map((name) => output(name, name)),
        output('data.deep.key', 'raw'),
        output('doubled', 'doubled', { sql: '$value::numeric * 2' }),
        output('sure', 'raw', { sql: `$json ->> 'b' || $confidence` }),
      ],
      touch: { at: `timestamptz '2026-11-21T00:00:00Z'` },
    }),
  )
  const keys = ['1', '2', '3', '4', '5', '6']
  const rows = await readPage(database.db, source, keysQuery(source, keys))
  const hashes = new Map(rows.map((row) => [row.key, row.input_hash]))
  const records = [
    RECORD,
    RECORD,
    RECORD,
    { title: 'only' },
    { ...RECORD, code: 'too long', big: null },
    RECORD,
  ]
  const batch = keys.map((key, index) => {
    const { values, skipped } = coerceRecord(source, records[index], 0.5)
    return {
      index,
      key,
      inputHash: key === '4' ? '0' : (hashes.get(key) ?? '0'),
      values: { ...values, ...Object.fromEntries(skipped.map(({ column }) => [column, null])) },
      lastWritten: key === '3' ? { title: 'filled' } : null,
      confidence: key === '2' ? null : 0.5,
    }
  })
  const plain = writeUpdate(source)
  const bisecting = writeUpdate(source, true)
  const [arrays, json] = await inTransaction(database.db, async (tx) => {
    const [one] = await query<{ results: string }>(
      tx,
      rowUpdateStatement(source, bisecting, { preview: true }),
      [batchJson(bisecting.batch, batch)],
    )
    const parameters = batchParameters(plain.batch, batch)
    return [
      await query<object>(tx, rowUpdateStatement(source, plain, { preview: true }), parameters),
      JSON.parse(one?.results ?? '[]') as object[],
    ]
  })
  const results = [arrays, json].map((all) =>
    all.map(resultReader(plain)).toSorted((a, b) => a.index - b.index),
  )
  expect(results[0]?.map(({ state }) => state)).toEqual([
    'written',
    'written',
    'written',
    'changed',
    'written',
    'missing',
  ])
  expect(results[0]?.[0]?.after).toMatchObject({ price: '1000000000000000000000', sure: '1.50.5' })
  expect(JSON.stringify(results[0]?.[0]?.after)).toContain('"doubled":2.50')
  expect(JSON.stringify(results[1])).toBe(JSON.stringify(results[0]))
})
