import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness, type Harness } from '../../support/harness.ts'

/* The odd values that a column of each type may hold: none costs its row, a run or an undo. */

const ODD_VALUES: Readonly<
  Record<string, readonly [type: string, values: readonly string[], written: string]>
> = {
  n: ['numeric', [`'NaN'`, `'Infinity'`, `'1e300'`], '1'],
  f: ['float8', [`'NaN'`, `'-Infinity'`, `'-0'`], '1'],
  d: ['date', [`'infinity'`, `'0044-03-15 BC'`], `'2020-01-01'`],
  ts: ['timestamptz', [`'-infinity'`, `'4713-01-01 BC'`], `'2020-01-01'`],
  e: ['mood', [`'sad'`], `'ok'`],
  w: ['word', [`'w'`], `'v'`],
  a: ['int[]', [`'{}'`, `'{{1,2},{3,4}}'`, `'[0:1]={1,2}'`, `'{null}'`], `'{1}'`],
  c: ['pair', [`'(,)'`, `'(1,"a ""b""")'`], `'(1,x)'`],
  r: ['int4range', [`'empty'`, `'(,)'`], `'[1,2)'`],
  b: ['bytea', [String.raw`'\x00'`, `''`], String.raw`'\x01'`],
  t: ['text', [`''`, `repeat('x', 300000)`, String.raw`E'\u200b'`], `'t'`],
  j: [
    'json',
    [
      String.raw`'{"a": "\u0000"}'`,
      `'null'`,
      String.raw`'"\ud800"'`,
      String.raw`'"\u0000"'`,
      `'{"a":1,"a":2}'`,
    ],
    `'{}'::json`,
  ],
  jb: ['jsonb', [`'null'`, `'1e400'`, `'[]'`], `'{}'::jsonb`],
  i: ['interval', [`'-1 month 3 days'`], `'1 day'`],
  u: ['inet', [`'::1'`], `'127.0.0.1'`],
  v: ['bit(4)', [`'0000'`], `'1111'`],
  m: ['money', [`'-1'`], `'2'`],
  tv: ['tsvector', [`''`], `'a'`],
}
const POLICIES = ['blank', 'tracked', 'always'] as const

let harness: Harness
beforeAll(async () => {
  const source = (policy: string) => ({
    kind: 'person',
    table: `odd_${policy}`,
    inputs: { email: 't.email' },
    outputs: Object.fromEntries(
      Object.entries(ODD_VALUES).map(([column, [, , sql]]) => [column, { field: 'title', policy, sql }]),
    ),
  })
  harness = await startHarness({
    config: {
      sources: Object.fromEntries(POLICIES.map((policy) => [policy, source(policy)])),
      budget: 'unlimited',
    },
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      const columns = Object.entries(ODD_VALUES).map(([column, [type]]) => `${column} ${type}`)
      const inserts = Object.entries(ODD_VALUES).flatMap(([column, [, values]]) =>
        values.map((value) => `insert into odd_blank (${column}) values (${value});`),
      )
      await pool.query(`
        create type mood as enum ('sad', 'ok'); create type pair as (a int, b text); create domain word as text check (value <> '');
        create table odd_blank (id int generated always as identity primary key, email text, ${columns.join(', ')});
        ${inserts.join('\n')}
        update odd_blank set email = 'odd' || id || '@example.com';
        create table odd_tracked (like odd_blank including all); insert into odd_tracked overriding system value select * from odd_blank;
        create table odd_always (like odd_blank including all); insert into odd_always overriding system value select * from odd_blank`)
    },
  })
})
afterAll(() => harness.close())

test('odd values cost no row its write, and an undo restores them to the byte', async () => {
  const checksums = async (): Promise<unknown> => {
    const sums = POLICIES.map(
      (policy) => `(select md5(string_agg(o::text, '|' order by id)) from odd_${policy} o)`,
    )
    return await harness.query(`select ${sums.join(', ')}`)
  }
  const before = await checksums()
  const { run, status, rows } = await harness.run()
  expect({ status, rows }).toMatchObject({
    status: 'completed',
    rows: { picked: rows.picked, enriched: rows.picked, write_rejected: 0 },
  })
  expect(rows.picked).toBe(POLICIES.length * Object.values(ODD_VALUES).flatMap(([, values]) => values).length)
  const undone = await harness.undo(run)
  expect(undone.changes).toMatchObject({ restored: rows.picked, rejected: 0 })
  expect(await checksums()).toEqual(before)
})
