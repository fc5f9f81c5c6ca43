import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { describeSource } from '../../../src/sources/describe-source.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(`
    create table blocked (email text, title text);
    create table people (id int primary key, email text, title text, phone text, attributes jsonb, status text,
                         enriched_at timestamptz, deleted_at timestamptz, changed_at timestamptz);
    create table titles (id int primary key, person int, title text, enriched_at timestamptz);
    insert into people (id, email, attributes) values (1, 'a@x.example', '{}')`)
})
afterAll(() => database.drop())

async function findings(options: Partial<SourceMapping>, ...others: SourceMapping[]): Promise<unknown> {
  const source = await openSource(database.db, mapping(options))
  const written = await Promise.all(others.map((other) => openSource(database.db, other)))
  return (await describeSource(database.db, source, written))
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
    expect(await findings({ where: [where], touch })).toEqual([reported])
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
      expect(await findings({ where: [`(${where}) is not null`], touch: inJson })).toEqual([
        `where: ${found}: a row leaves the source when it is written: ${todo}`,
      ])
  })

  test('a column that is no time', async () => {
    expect(
      await findings({ where: [`t.status is distinct from 'done'`], touch: { status: `'done'` } }),
    ).toEqual([expect.stringContaining('Keep the time of the enrichment in a column')])
    const both = { status: `'done'`, ...touch }
    expect(await findings({ where: [`t.status is distinct from 'done'`], touch: both })).toEqual([
      expect.stringContaining("Write freshness: { column: 'enriched_at' } in its place."),
    ])
  })

  test('and if `freshness` is there already, the condition is superfluous', async () => {
    const freshness = { column: 'enriched_at', maxAgeMs: 1_000 }
    expect(await findings({ where: ['t.enriched_at is null'], freshness })).toEqual([
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
    expect(await findings({ where: [where], outputs })).toEqual([
      `where: a condition on ${column}, which the source fills: a row leaves the source when it is written, and is not refreshed: Leave that out: a value that is there is kept, and a row without blanks is not picked.`,
    ])
  })
})

describe('a condition on what another source writes', () => {
  const joins = 'join people p on p.id = t.person'
  const link: Partial<SourceMapping> = { table: 'titles', inputs: { email: 'p.email' }, joins }
  const people = (options: Partial<SourceMapping>): SourceMapping => mapping({ name: 'people', ...options })
  const stamps = people({ freshness: { column: 'enriched_at', maxAgeMs: 1_000 } })
  const leaves = 'a row leaves this source when the source people writes'

  test.each([
    ['p.enriched_at is null', joins],
    [`"p"."enriched_at" < now() - interval '90 days'`, joins],
    ['person.enriched_at is null', 'left join public.people as person on person.id = t.person'],
    ['exists (select from people o where o.id = t.person and o.enriched_at is null)', joins],
  ])('is reported, with freshness in its place: %s', async (where, joined) => {
    const found = await findings(
      {
        ...link,
        where: [where],
        joins: joined,
        inputs: { email: 't.title' },
        outputs: [output('title', 'title')],
      },
      stamps,
    )
    const [, named = ''] = /((?:\S+\.)?"?enriched_at"?)/.exec(where.replace(/.*and /, '')) ?? []
    const text = named.replaceAll('"enriched_at"', 'enriched_at')
    expect(found).toEqual([
      `where: a condition on ${text}, which the source people sets: ${leaves}: Write freshness: { read: '${text}' } in its place: a time that Fillrate has set does not count there.`,
    ])
  })

  test('is reported for a column that it fills, and of one on the same table', async () => {
    const fills = people({ outputs: [output('phone', 'phone')], touch })
    expect(await findings({ ...link, where: ['p.phone is null'] }, fills)).toEqual([
      `where: a condition on p.phone, which the source people fills: ${leaves}, and is not picked any more: Leave that out: a value that is there is kept, and a row without blanks is not picked.`,
    ])
    expect(await findings({ where: ['t.enriched_at is null'] }, fills)).toEqual([
      `where: a condition on enriched_at, which the source people sets: ${leaves}: Write freshness: { column: 'enriched_at' } in its place.`,
    ])
  })

  test.each([
    ['p.deleted_at is null'],
    ['t.enriched_at is null'],
    [`p.phone <> '555'`],
    [`exists (select from blocked b where b.title is null)`],
  ])('is not, if it writes another: %s', async (where) => {
    expect(
      await findings({ ...link, where: [where] }, stamps, people({ outputs: [output('phone', 'phone')] })),
    ).toEqual([])
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
  expect(await findings({ where: [where], outputs, touch })).toEqual([])
})
