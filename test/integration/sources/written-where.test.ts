import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { describeSource } from '../../../src/sources/describe-source.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.pool.query(`
    create table blocked (email text, title text);
    create table people (id int primary key, email text, title text, phone text, attributes jsonb, status text,
                         enriched_at timestamptz, deleted_at timestamptz, changed_at timestamptz);
    insert into people (id, email, attributes) values (1, 'a@x.example', '{}')`)
})
afterAll(() => database.drop())

async function findings(options: Partial<SourceMapping>): Promise<unknown> {
  const source = await openSource(database.db, mapping(options))
  return (await describeSource(database.db, source))
    .filter(({ expected }) => expected === 'a condition on columns that Fillrate does not write')
    .map(({ place, found, todo }) => `${place}: ${found.split('\n').at(-1)}: ${todo}`)
}

const touch = { enriched_at: 'now()' }
const outputs = [
  output('title', 'title'),
  output('attributes.department', 'department'),
  output('attributes.title.text', 'title'),
]

describe('a condition on what a write sets is reported, with freshness in its place', () => {
  const reported =
    "where: a condition on enriched_at, which each write sets: a row leaves the source when it is written: Write freshness: { column: 'enriched_at' } in its place."
  test.each([
    ['t.enriched_at is null'],
    [`deleted_at is null and (Enriched_At < now() - interval '90 days')`],
    ['t."enriched_at"::date < current_date'],
    [`exists (select from blocked b where b.email <> t.email and t.enriched_at is null)`],
  ])('%s', async (where) => {
    expect(await findings({ where, touch })).toEqual([reported])
  })

  test('a key in jsonb, and its parent', async () => {
    const inJson = { 'attributes.sync.at': 'now()' }
    const todo = "Write freshness: { column: 'attributes.sync.at' } in its place."
    const found = 'a condition on attributes.sync.at, which each write sets'
    for (const where of [
      `t.attributes -> 'sync' ->> 'at' is null`,
      `t.attributes #>> '{sync,at}' is null`,
      `t.attributes -> 'sync' is null`,
      `not t.attributes ? 'sync'`,
      't.attributes is null',
    ])
      expect(await findings({ where: `(${where}) is not null`, touch: inJson })).toEqual([
        `where: ${found}: a row leaves the source when it is written: ${todo}`,
      ])
  })

  test('a column that is no time', async () => {
    expect(
      await findings({ where: `t.status is distinct from 'done'`, touch: { status: `'done'` } }),
    ).toEqual([expect.stringContaining('Keep the time of the enrichment in a column')])
    const both = { status: `'done'`, ...touch }
    expect(await findings({ where: `t.status is distinct from 'done'`, touch: both })).toEqual([
      expect.stringContaining("Write freshness: { column: 'enriched_at' } in its place."),
    ])
  })

  test('and if `freshness` is there already, the condition is superfluous', async () => {
    const freshness = { column: 'enriched_at', maxAgeMs: 1_000 }
    expect(await findings({ where: 't.enriched_at is null', freshness })).toEqual([
      expect.stringContaining('Leave that out: `freshness` does it.'),
    ])
  })
})

describe('a condition that a filled column is blank', () => {
  test.each([
    ['t.title is null', 'title'],
    [`coalesce(t.title, '') = ''`, 'title'],
    [`nullif(trim(t.title), '') is null`, 'title'],
    [`t.attributes ->> 'department' is null`, 'attributes.department'],
  ])('is reported: %s', async (where, column) => {
    expect(await findings({ where, outputs })).toEqual([
      `where: a condition on ${column}, which the source fills: a row leaves the source when it is written, and is not refreshed: Leave that out: a value that is there is kept, and a row without blanks is not picked.`,
    ])
  })
})

test.each([
  ['t.deleted_at is null'],
  [`t.attributes ->> 'do_not_call' is distinct from 'true'`],
  [`t.attributes -> 'title' ->> 'language' is null`],
  [`t.title not in (select title from blocked)`],
  [`not exists (select from blocked b where b.title is null)`],
  [`t.email <> 'enriched_at is null'`],
])('a condition on anything else is not: %s', async (where) => {
  expect(await findings({ where, outputs, touch })).toEqual([])
})
