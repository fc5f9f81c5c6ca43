import { expect, onTestFinished, test } from 'vitest'
import { useHarness, startHarness } from '../../support/harness.ts'

/*
 * What a jsonb or json column may hold where a key inside it is input and output: each is one row's matter, and the rows
 * beside it, and companies that are only joined, are written. A parent that is a text, a number or an array is left as it is.
 */

/** The value, and what a run leaves of it: `title` and `address.city` are outputs, and `company` is input and output. */
const CELLS: ReadonlyArray<readonly [value: string | null, left: object | string | number | boolean | null]> =
  [
    [null, FILLED()],
    ['null', FILLED()],
    ['{}', FILLED()],
    ['{"company": null, "title": " ", "address": null}', FILLED()],
    [
      '{"company": "Typed", "title": [], "address": {"zip": "1"}}',
      { ...FILLED(), company: 'Typed', address: { zip: '1', city: 'new' } },
    ],
    ['{"title": 0, "address": "Oslo"}', { company: 'new', title: 0, address: 'Oslo' }],
    ['{"title": {"no": "Sjef"}, "address": [1]}', { company: 'new', title: { no: 'Sjef' }, address: [1] }],
    [
      '{"company": ["A", "B"], "title": false, "address": {"city": {}}}',
      { company: ['A', 'B'], title: false, address: { city: {} } },
    ],
    ['"a text"', 'a text'],
    ['""', ''],
    ['5', 5],
    ['true', true],
    ['[]', []],
    ['[1, {"company": "in an array"}]', [1, { company: 'in an array' }]],
  ]

function FILLED() {
  return { company: 'new', title: 'new', address: { city: 'new' } }
}

let first = 0
const outputs = (column: string) => ({
  [`${column}.company`]: 'company.name',
  [`${column}.title`]: 'title',
  [`${column}.address.city`]: { field: 'title', sql: `'Oslo'` },
})
const harness = useHarness({
  config: {
    sources: {
      binary: {
        kind: 'person',
        table: 'people',
        inputs: { email: 't.email', name: 't.name', company: `t.data ->> 'company'` },
        outputs: outputs('data'),
      },
      textual: {
        kind: 'person',
        table: 'texts',
        inputs: { email: 't.email', name: 't.name', company: `t.data ->> 'company'` },
        outputs: outputs('data'),
      },
      employers: {
        kind: 'company',
        table: 'accounts',
        inputs: { domain: `coalesce(p.data ->> 'company', t.site)` },
        joins: 'left join people p on p.id = t.id',
        outputs: { 'about.domain': 'domain', industry: 'industry' },
      },
      joined: {
        kind: 'person',
        table: 'members',
        inputs: { email: 't.email', name: 't.name', company: `a.about ->> 'domain'` },
        joins: 'left join accounts a on a.id = t.id',
        outputs: { title: 'title' },
      },
    },
    budget: 'unlimited',
  },
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: async ({ pool }) => {
    await pool.query('create domain document as jsonb')
    const values = CELLS.map(([value]) => value)
    for (const [table, type] of [
      ['people', 'jsonb'],
      ['texts', 'document'],
    ])
      await pool.query(`create table ${table} (id int primary key, email text, name text, data ${type})`)
    await pool.query(`create table accounts (id int primary key, site text, about jsonb, industry text);
        create table members (id int primary key, email text, name text, title text)`)
    for (const table of ['people', 'texts'])
      await pool.query(
        `insert into ${table} select n, '${table}' || n || '@example.com', 'Ada Nr ' || n, v::jsonb from unnest($1::text[]) with ordinality as u(v, n)`,
        [values],
      )
    await pool.query(
      `insert into accounts select n, 'c' || n || '.example', v::jsonb from unnest($1::text[]) with ordinality as u(v, n)`,
      [values.map((value) => value?.replace('company', 'domain') ?? null)],
    )
    await pool.query(
      `insert into members select n, 'm' || n || '@example.com', 'Bo Nr ' || n from generate_series(1, ${values.length}) n`,
    )
  },
})

const documents = async (table: string): Promise<unknown[]> =>
  (await harness.query<{ data: unknown }>(`select data from ${table} order by id`)).map((row) => row.data)
const setAll = (values: readonly (string | null)[]): Promise<unknown> =>
  Promise.all(
    ['people', 'texts'].map((table) =>
      harness.database.pool.query(
        `update ${table} set data = v::jsonb from unnest($1::text[]) with ordinality as u(v, n) where id = n`,
        [values],
      ),
    ),
  )

/** What Fillrate wrote, as the word `new`. */
const NEW: Readonly<Record<string, string>> = { company: 'new', title: 'new', city: 'new' }
const masked = (left: unknown, [value]: (typeof CELLS)[number]): unknown =>
  JSON.parse(JSON.stringify(left), (name, one: unknown) =>
    typeof one === 'string' && name in NEW && !(value ?? '').includes(JSON.stringify(one)) ? NEW[name] : one,
  )

test('a key inside any value is written, or left with what a person typed, and no row stops another', async () => {
  const report = await harness.run()
  first = report.run
  expect(report.status).toBe('completed')
  expect(report.rows).toMatchObject({
    picked: 42,
    enriched: 40,
    invalid_input: 2,
    write_rejected: 0,
    failed: 0,
  })
  for (const table of ['people', 'texts'])
    expect(
      (await documents(table)).map((left, n) => masked(left, CELLS[n] as (typeof CELLS)[number])),
    ).toEqual(CELLS.map(([, left]) => left))
  expect(await harness.query('select 1 from accounts where industry is null')).toHaveLength(2)
  expect(await harness.query('select 1 from members where title is null')).toEqual([])
})

test('what a person puts in place of a filled value is read, written and undone beside the others', async () => {
  // Each filled row gets another odd value, twice.
  const values = CELLS.map(([value]) => value)
  for (const shift of [7, 9]) {
    const odd = [...values.slice(shift), ...values.slice(0, shift)]
    await setAll(odd)
    const { status, rows } = await harness.run()
    expect({ status, rejected: rows.write_rejected, failed: rows.failed }).toEqual({
      status: 'completed',
      rejected: 0,
      failed: 0,
    })
    const isOther = (value: string | null | undefined): boolean => !/^(?:null|\{.*)$/.test(value ?? 'null')
    expect((await documents('people')).filter((_, n) => isOther(odd[n]))).toEqual(
      odd.filter(isOther).map((value) => JSON.parse(value ?? '') as unknown),
    )
  }
  const undone = await harness.undo(first)
  expect(undone).toMatchObject({ status: 'completed', changes: { rejected: 0, remaining: 0 } })
  expect((await harness.run()).status).toBe('completed')
})

/** The odd values that a column of each type may hold. */
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

test('odd values cost no row its write, and an undo restores them to the byte', async () => {
  const source = (policy: string) => ({
    kind: 'person',
    table: `odd_${policy}`,
    inputs: { email: 't.email' },
    outputs: Object.fromEntries(
      Object.entries(ODD_VALUES).map(([column, [, , sql]]) => [column, { field: 'title', policy, sql }]),
    ),
  })
  const columns = await startHarness({
    config: {
      sources: Object.fromEntries(POLICIES.map((policy) => [policy, source(policy)])),
      budget: 'unlimited',
    },
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      const definitions = Object.entries(ODD_VALUES).map(([column, [type]]) => `${column} ${type}`)
      const inserts = Object.entries(ODD_VALUES).flatMap(([column, [, values]]) =>
        values.map((value) => `insert into odd_blank (${column}) values (${value});`),
      )
      await pool.query(`
        create type mood as enum ('sad', 'ok'); create type pair as (a int, b text); create domain word as text check (value <> '');
        create table odd_blank (id int generated always as identity primary key, email text, ${definitions.join(', ')});
        ${inserts.join('\n')}
        update odd_blank set email = 'odd' || id || '@example.com';
        create table odd_tracked (like odd_blank including all); insert into odd_tracked overriding system value select * from odd_blank;
        create table odd_always (like odd_blank including all); insert into odd_always overriding system value select * from odd_blank`)
    },
  })
  onTestFinished(() => columns.close())
  const checksums = async (): Promise<unknown> => {
    const sums = POLICIES.map(
      (policy) => `(select md5(string_agg(o::text, '|' order by id)) from odd_${policy} o)`,
    )
    return await columns.query(`select ${sums.join(', ')}`)
  }
  const before = await checksums()
  const { run, status, rows } = await columns.run()
  expect({ status, rows }).toMatchObject({
    status: 'completed',
    rows: { picked: rows.picked, enriched: rows.picked, write_rejected: 0 },
  })
  expect(rows.picked).toBe(POLICIES.length * Object.values(ODD_VALUES).flatMap(([, values]) => values).length)
  const undone = await columns.undo(run)
  expect(undone.changes).toMatchObject({ restored: rows.picked, rejected: 0 })
  expect(await checksums()).toEqual(before)
})
