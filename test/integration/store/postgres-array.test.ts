import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ArrayType, postgresArray } from '../../../src/util/postgres-array.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

/** The elements of an array as Postgres understood them, in its own notation. */
async function asRead(type: ArrayType, values: readonly unknown[]): Promise<(string | null)[]> {
  const rows = await database.query<{ value: string | null }>(
    `select value::text from unnest($1::${type}[]) with ordinality as v (value, n) order by n`,
    [postgresArray(type, values)],
  )
  return rows.map((row) => row.value)
}

describe('arrays in binary format', () => {
  test.each<[ArrayType, readonly unknown[], readonly (string | null)[]]>([
    ['boolean', [true, false, null], ['true', 'false', null]],
    ['smallint', [-32_768, 32_767, undefined], ['-32768', '32767', null]],
    ['integer', [-2_147_483_648, 0, 2_147_483_647], ['-2147483648', '0', '2147483647']],
    [
      'bigint',
      [-1, 0, 4_294_967_295, 4_294_967_296, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
      ['-1', '0', '4294967295', '4294967296', '9007199254740991', '-9007199254740991'],
    ],
    ['double precision', [0.1, -1e-300, 1e21], ['0.1', '-1e-300', '1e+21']],
    ['text', ['', 'null', '{"a"}\\', 'Łódź 🏙', null], ['', 'null', '{"a"}\\', 'Łódź 🏙', null]],
    [
      'jsonb',
      [{ name: 'Zoë', tags: [1, null] }, 'text', null, false, 0],
      ['{"name": "Zoë", "tags": [1, null]}', '"text"', null, 'false', '0'],
    ],
    ['json', [{ b: 1, a: 1.5 }, null, 'text'], ['{"b":1,"a":1.5}', null, '"text"']],
    ['uuid', ['0fae2f6c-95ad-4be6-b23b-9a1e0b1c2d3e'], ['0fae2f6c-95ad-4be6-b23b-9a1e0b1c2d3e']],
    ['tid', ['(0,1)', '(4294967295,65535)'], ['(0,1)', '(4294967295,65535)']],
  ])('of %s are read as they were meant', async (type, values, expected) => {
    expect(await asRead(type, values)).toEqual(expected)
  })

  test('of texts of any length are kept', async () => {
    const texts = [100_000, 2_000_000].flatMap((length) => ['a'.repeat(length), '🏙'.repeat(length)])
    expect(await asRead('text', texts)).toEqual(texts)
  })

  test('of times are exact to the microsecond', async () => {
    const rows = await database.query<{ text: string; json: string; at: Date }>(`
      select at::text as text, to_json(at) #>> '{}' as json, date_trunc('milliseconds', at) as at
        from unnest(array['1969-12-31 23:59:59.999999+00', '2026-11-23 07:00:00.123456+05:30', '2026-02-28 00:00:00.1234+00',
                          '1999-12-31 23:59:59.5+00', '2254-01-01 00:00:00+00']::timestamptz[]) at`)
    expect(
      await asRead(
        'timestamptz',
        rows.map((row) => row.json),
      ),
    ).toEqual(rows.map((row) => row.text))
    const dates = await asRead(
      'timestamptz',
      rows.map((row) => row.at),
    )
    const truncated = await database.query<{ text: string }>(
      `select date_trunc('milliseconds', at)::text as text from unnest($1::timestamptz[]) with ordinality as t (at, n) order by n`,
      [rows.map((row) => row.text)],
    )
    expect(dates).toEqual(truncated.map((row) => row.text))
  })

  test.each<[ArrayType, unknown]>([
    ['integer', 1.5],
    ['text', 5],
    ['text', ['a']],
    ['text', new Date()],
    ['bigint', 2 ** 60],
    ['smallint', 40_000],
    ['uuid', 'xyz'],
    ['timestamptz', new Date(Number.NaN)],
    ['timestamptz', 'infinity'],
  ])('of %s do not take %s', (type, value) => {
    expect(() => postgresArray(type, [value])).toThrow(RangeError)
  })

  test('have NULL for what JSON has no number for', async () => {
    expect(await asRead('double precision', [1, Number.NaN, Number.POSITIVE_INFINITY])).toEqual([
      '1',
      null,
      null,
    ])
  })

  test('of json have no escape that Postgres cannot read', async () => {
    const value = { half: 'a\ud83c', nul: 'b\0', whole: '🏙', quoted: '\\u0000 "\\ud83c"' }
    const rows = await database.query<{ half: string; nul: string; whole: string; quoted: string }>(
      `select v ->> 'half' as half, v ->> 'nul' as nul, v ->> 'whole' as whole, v ->> 'quoted' as quoted from unnest($1::json[]) v`,
      [postgresArray('json', [value])],
    )
    expect(rows).toEqual([{ half: 'a', nul: 'b', whole: '🏙', quoted: value.quoted }])
  })

  test('without a value are empty, and filled with NULL beside a longer one', async () => {
    const rows = await database.query(
      'select * from unnest($1::bigint[], $2::text[], $3::jsonb[]) as v (id, name, record)',
      [postgresArray('bigint', [7, 8]), postgresArray('text', [null, undefined]), postgresArray('jsonb', [])],
    )
    expect(rows).toEqual([
      { id: '7', name: null, record: null },
      { id: '8', name: null, record: null },
    ])
  })

  test('of any texts and any JSON come back unchanged', async () => {
    const text = fc.string({ unit: 'grapheme' }).filter((one) => !one.includes('\0'))
    const json = fc.dictionary(text, fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)))
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.option(text), fc.option(json)), { maxLength: 20 }),
        async (pairs) => {
          expect(
            await asRead(
              'text',
              pairs.map(([one]) => one),
            ),
          ).toEqual(pairs.every(([one]) => one === null) ? [] : pairs.map(([one]) => one))
          const read = await asRead(
            'jsonb',
            pairs.map(([, one]) => one),
          )
          expect(read.map((one) => (one === null ? null : JSON.parse(one)))).toEqual(
            pairs.every(([, one]) => one === null) ? [] : pairs.map(([, one]) => one),
          )
        },
      ),
      { numRuns: 50 },
    )
  })
})
