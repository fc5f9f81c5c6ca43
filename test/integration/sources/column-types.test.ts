import { beforeAll, describe, expect, test } from 'vitest'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { write } from './writing.ts'

const database = useTestDatabase()

beforeAll(async () => {
  await database.query(`
    create type mood as enum ('Good', 'so so');
    create domain short as varchar(5) check (value <> 'bad');
    create domain shorter as short;
    create domain percent as numeric(5,2) check (value between 0 and 100);
    create domain labels as text[];
    create table typed (
      id int primary key, email text,
      c_text text, c_varchar varchar(5), c_char char(5), c_smallint smallint, c_int int, c_bigint bigint, c_real real,
      c_double double precision, c_numeric numeric, c_money numeric(6,2), c_bool boolean, c_date date,
      c_timestamp timestamp, c_timestamp0 timestamp(0), c_timestamptz timestamptz, c_uuid uuid, c_enum mood,
      c_texts text[], c_shorts varchar(5)[], c_ints int[], c_moods mood[], c_json json, c_jsonb jsonb,
      c_domain short, c_domain2 shorter, c_percent percent, c_labels labels, c_inet inet, c_interval interval)`)
})
let next = 1

/** Writes one value to a column of a new row. Returns what the column then holds, as text, or why it was rejected. */
async function writeTo(column: string, value: unknown, options = {}) {
  const key = String(next++)
  await database.query(`insert into typed (id, email) values ($1, 'a')`, [key])
  const result = await writeAgain(key, column, value, options)
  const rows = await database.query<{ value: string | null }>(
    `select ${column}::text as value from typed where id = $1`,
    [key],
  )
  return { key, result, held: rows[0]?.value ?? null }
}

async function writeAgain(key: string, column: string, value: unknown, options = {}, written = {}) {
  const outputs = [output(column, 'value', options)]
  const source = await openSource(database.db, mapping({ table: 'typed', outputs }))
  const [result] = await write(database, source, [key], { value }, { written })
  return result
}

/** A column, a value, and what the column holds then, as text. */
const VALUES: readonly (readonly [column: string, value: unknown, held: string])[] = [
  ['c_text', 'O’Neil "x" \\ {a,b} \u{1F600}', 'O’Neil "x" \\ {a,b} \u{1F600}'],
  ['c_text', 'nul\u0000 and \ud83dhalf', 'nul and half'],
  ['c_text', 12.5, '12.5'],
  ['c_text', false, 'false'],
  ['c_varchar', 'abcd\u{1F600}', 'abcd\u{1F600}'],
  ['c_char', 'ab', 'ab'],
  ['c_smallint', -32768, '-32768'],
  ['c_int', '2147483647', '2147483647'],
  ['c_int', '12.0', '12'],
  ['c_int', 1e3, '1000'],
  ['c_bigint', '9223372036854775807', '9223372036854775807'],
  ['c_real', 0.1, '0.1'],
  ['c_double', 1e308, '1e+308'],
  ['c_numeric', '123456789012345678901234567890.5', '123456789012345678901234567890.5'],
  ['c_money', 9999.994, '9999.99'],
  ['c_money', '1.5', '1.50'],
  ['c_bool', 'Yes', 'true'],
  ['c_bool', 0, 'false'],
  ['c_date', '2024-02-29', '2024-02-29'],
  ['c_date', '2026-11-21T23:59:59Z', '2026-11-21'],
  ['c_timestamp', '2026-11-21T23:30:00.5-05:00', '2026-11-22 04:30:00.5'],
  ['c_timestamp0', '2026-11-21T23:30:00.5Z', '2026-11-21 23:30:01'],
  ['c_uuid', '{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['c_enum', 'so so', 'so so'],
  ['c_texts', ['a', 'b"c', 'null', '{}', 'd,e'], '{a,"b\\"c","null","{}","d,e"}'],
  ['c_texts', 'single', '{single}'],
  ['c_shorts', ['abc', null, 'd'], '{abc,d}'],
  ['c_ints', [1, '2'], '{1,2}'],
  ['c_moods', ['Good', 'so so'], '{Good,"so so"}'],
  ['c_json', { a: [1, 'x'] }, '{"a": [1, "x"]}'],
  ['c_jsonb', ['a', 'b'], '["a", "b"]'],
  ['c_jsonb', 'text', '"text"'],
  ['c_domain', 'abc', 'abc'],
  ['c_domain2', 'abc', 'abc'],
  ['c_percent', '12.345', '12.35'],
  ['c_labels', ['x'], '{x}'],
  ['c_inet', '10.0.0.1/8', '10.0.0.1/8'],
  ['c_interval', '90 minutes', '01:30:00'],
]

test('values are written in the types of their columns, and the same values change nothing under any policy', async () => {
  const byColumn = [...Map.groupBy(VALUES, ([column]) => column).entries()]
  // A row for the first value of each column, one for the second of those that have two, and so on.
  for (let round = 0; ; round++) {
    const cells = byColumn.flatMap(([, values]) => values.slice(round, round + 1))
    if (cells.length === 0) break
    const key = String(next++)
    await database.query(`insert into typed (id, email) values ($1, 'a')`, [key])
    const record = Object.fromEntries(cells.map(([column, value]) => [column, value]))
    const writeAll = async (policy: 'blank' | 'tracked' | 'always', written = {}) => {
      const outputs = cells.map(([column]) => output(column, column, { policy }))
      const source = await openSource(database.db, mapping({ table: 'typed', outputs }))
      const [result] = await write(database, source, [key], record, { written })
      return result
    }
    const result = await writeAll('blank')
    const texts = cells.map(([column]) => `${column}::text`).join(', ')
    const [held] = await database.query<Record<string, string>>(`select ${texts} from typed where id = $1`, [
      key,
    ])
    expect(held).toEqual(Object.fromEntries(cells.map(([column, , text]) => [column, text])))
    expect(await writeAll('always')).toMatchObject({ outcome: 'unchanged' })
    expect(await writeAll('tracked', result?.after ?? {})).toMatchObject({
      outcome: 'unchanged',
      protectedColumns: [],
    })
  }
})

describe('a value of one column', () => {
  test('a number of tens, from Postgres 15 on', async (context) => {
    const hasTens = await database.scalar<boolean>(`current_setting('server_version_num')::int >= 150000`)
    if (!hasTens) context.skip('no negative scale before')
    await database.query('alter table typed add c_tens numeric(3,-1)')
    const { key, held } = await writeTo('c_tens', 1234)
    expect(held).toBe('1230')
    expect(await writeAgain(key, 'c_tens', 1234, { policy: 'always' })).toMatchObject({
      outcome: 'unchanged',
    })
  })

  test('timestamptz, whatever the session’s zone', async () => {
    const { key } = await writeTo('c_timestamptz', '2026-11-21 23:30')
    const rows = await database.query(
      `select c_timestamptz = '2026-11-21T23:30:00Z' as same from typed where id = $1`,
      [key],
    )
    expect(rows).toEqual([{ same: true }])
  })

  test.each([
    ['c_domain', 'bad', 'check', 'short_check, domain short'],
    ['c_percent', 101, 'check', 'percent_check, domain percent'],
    ['c_inet', 'nowhere', 'rejected', 'invalid input syntax for type inet (22P02)'],
  ])('%s rejects %j in the database', async (column, value, reason, detail) => {
    expect(await writeTo(column, value)).toMatchObject({
      held: null,
      result: { outcome: 'rejected', skipped: [{ column, reason, detail }] },
    })
  })

  test('a value that skips coercion is never truncated silently', async () => {
    const { result } = await writeTo('c_domain', 'longer', { sql: '$value' })
    expect(result).toMatchObject({
      outcome: 'unchanged',
      skipped: [{ column: 'c_domain', reason: 'too_long' }],
    })
  })
})
