import { beforeAll, describe, expect, test } from 'vitest'
import { parseExactJson } from '../../../src/domain/json.ts'
import { cellJsonSql, cellTextSql, readCellText } from '../../../src/sources/cell.ts'
import { query } from '../../../src/sources/db.ts'
import { openSource } from '../../../src/sources/source.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'

const database = useTestDatabase()

beforeAll(async () => {
  const name = new URL(database.url).pathname.slice(1)
  await database.query(
    `alter database "${name}" set DateStyle = 'SQL, DMY'; alter database "${name}" set TimeZone = 'Asia/Kolkata';
     create type stage as enum ('new', 'it''s "old"'); create type pair as (word text, n int);
     create domain score as numeric check (value > -2); create domain tag as char(5)`,
  )
})
const VALUES: Readonly<Record<string, readonly string[]>> = {
  text: [`''`, `' a "b" \\ '`, `'{"a": 1}'`, `'null'`],
  'character(5)': [`'a'`, `'12'`],
  tag: [`'b'`],
  'character varying(9)': [`'12.50'`],
  smallint: ['-1'],
  integer: ['2147483647'],
  bigint: ['0', '123456789012345', '1234567890123456', '-9223372036854775808'],
  numeric: [
    '0',
    '12.50',
    '-0.0010',
    '123456789012.345',
    '1234567890123.4567',
    `'NaN'`,
    `'-Infinity'`,
    '1e14',
  ],
  score: ['1.0'],
  real: ['1.1', `'-0'`, `'NaN'`, `'Infinity'`],
  'double precision': ['0.1', '1e20', '1e308', '1e-9', `'-0'`, `'-Infinity'`],
  boolean: ['true', 'false'],
  date: [`'2026-02-01'`, `'infinity'`, `'0044-03-15 BC'`, `'12026-02-01'`],
  'timestamp without time zone': [`'2026-02-01 10:00:00.5'`, `'-infinity'`, `'0044-03-15 00:00 BC'`],
  'timestamp with time zone': [
    `'2026-02-01 10:00:00.25+02'`,
    `'2026-02-01 10:00:00+00'`,
    `'infinity'`,
    `'0044-03-15 00:00:00+00 BC'`,
    `'0001-01-01 00:00:00+00'`,
    `'12026-02-01 00:00:00+00'`,
  ],
  uuid: [`'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'`],
  stage: [`'it''s "old"'`],
  json: [`'{"b": 1.50,  "b": 2}'`, `'null'`, `'"text"'`],
  jsonb: [`'{"b": [1.50, 12345678901234567890]}'`, `'null'`, `'"text"'`, "'12.50'", `'[]'`, `'true'`],
  'integer[]': [`'{1,NULL}'`, `'[0:1]={1,2}'`],
  'timestamp with time zone[]': [`'{2026-02-01 10:00:00+02}'`],
  'bit(3)': [`'101'`],
  'bit varying': [`'0'`],
  interval: [`'1 day 02:00'`],
  pair: [`'("a b",)'`],
  bytea: [`'\\x00ff'`],
  inet: [`'10.0.0.1/8'`],
}

describe('a cell as text is read as the value that it has in JSON', () => {
  test.each(Object.entries(VALUES))('%s', async (type, values) => {
    await database.query(
      `drop table if exists people; create table people (id int primary key, email text, x ${type});
       insert into people values ${[...values, 'null'].map((value, n) => `(${n}, 'a', ${value})`).join(', ')}`,
    )
    const source = await openSource(database.db, mapping({ outputs: [output('x', 'x')] }))
    for (const cell of source.outputs) {
      const rows = await inTransaction(database.db, (tx) =>
        query<{ json: string | null; text: string | null }>(
          tx,
          `select ${cellJsonSql(cell)}::text as json, ${cellTextSql(cell)} as text from people as t order by id`,
        ),
      )
      expect(rows.length).toBe(values.length + 1)
      for (const { json, text } of rows)
        expect(text === null ? null : JSON.stringify(readCellText(cell, text))).toBe(
          json === null ? null : JSON.stringify(parseExactJson(json)),
        )
    }
  })

  test('keys in jsonb', async () => {
    await database.query(
      `drop table if exists people; create table people (id int primary key, email text, x jsonb);
       insert into people values (0, 'a', '{"k": 1.50}'), (1, 'a', '{"k": null}'), (2, 'a', '{}'), (3, 'a', null), (4, 'a', '{"k": "1"}')`,
    )
    const source = await openSource(database.db, mapping({ outputs: [output('x.k', 'x.k')] }))
    const [cell] = source.outputs
    if (cell === undefined) throw new Error('no output')
    const rows = await query<{ text: string | null }>(
      database.db,
      `select ${cellTextSql(cell)} as text from people as t order by id`,
    )
    const values = rows.map(({ text }) =>
      text === null ? 'nothing' : JSON.stringify(readCellText(cell, text)),
    )
    expect(values).toEqual(['1.50', 'null', 'nothing', 'nothing', '"1"'])
  })
})
