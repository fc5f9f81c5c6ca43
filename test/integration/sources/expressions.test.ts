import { expect, test } from 'vitest'
import type { OutputMapping } from '../../../src/domain/mapping.ts'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { write } from './writing.ts'

// What docs/configuration.md says about expressions.

const database = useTestDatabase()

/** The column `filled` of two rows after a batch that writes the record to both. */
async function fill(
  field: string,
  record: object,
  options: Partial<OutputMapping>,
  more: Parameters<typeof mapping>[0] = {},
): Promise<unknown[]> {
  await database.query(`
    drop table if exists people, teams;
    create table teams (id int primary key, name text);
    create table people (id int primary key, email text, team_id int, filled text, attributes jsonb);
    insert into teams values (7, 'Support');
    insert into people (id, email, team_id) values (1, 'ada@a.example', 7), (2, 'bo@b.example', null)`)
  const outputs = [output('filled', field, options)]
  const source = await openSource(database.db, mapping({ outputs, ...more }))
  await write(database, source, ['1', '2'], record)
  const rows = await database.query<{ filled: string | null }>('select filled from people order by id')
  return rows.map(({ filled }) => filled)
}

test('`sql` sees the row as t, and the tables of the joins', async () => {
  const sql = `$value || ' of ' || t.id || coalesce(' in ' || team.name, '')`
  const joins = 'left join teams team on team.id = t.team_id'
  expect(await fill('title', { title: 'CTO' }, { sql }, { joins })).toEqual([
    'CTO of 1 in Support',
    'CTO of 2',
  ])
})

test('`sql` comes after `map` and `matches`, and a value that one of them stops does not reach it', async () => {
  const map = { vp: 'VP', cto: 'CTO' }
  const matches = { source: '^V', flags: '' }
  const sql = "'(' || $value || ')'"
  expect(await fill('seniority', { seniority: 'vp' }, { map, matches, sql })).toEqual(['(VP)', '(VP)'])
  expect(await fill('seniority', { seniority: 'cto' }, { map, matches, sql })).toEqual([null, null])
  expect(await fill('seniority', { seniority: 'VP' }, { map, sql })).toEqual([null, null])
})

test('`$value` is the field as text, `$json` the same field as jsonb', async () => {
  const sql = `jsonb_typeof($json) || ' ' || $value`
  expect((await fill('title', { title: 'CTO' }, { sql }))[0]).toBe('string CTO')
  expect((await fill('confidence', { confidence: 0.5 }, { sql }))[0]).toBe('number 0.5')
  const company = { name: 'Acme', domain: 'acme.example' }
  expect((await fill('company', { company }, { sql: "$json ->> 'domain'" }))[0]).toBe('acme.example')
  // Not the record.
  expect((await fill('title', { title: 'CTO' }, { sql: "$json ->> 'title'" }))[0]).toBeNull()
})

test('rows of a batch do not see each other', async () => {
  const sql = 'case when exists (select from people o where o.filled = $value) then null else $value end'
  expect(await fill('phone', { phone: '+4790000000' }, { sql })).toEqual(['+4790000000', '+4790000000'])
})

test('`touch` sets keys inside jsonb, and sees t and `$confidence`', async () => {
  const touch = { 'attributes.enriched.by': "'fillrate ' || t.id", 'attributes.confidence': '$confidence' }
  await fill('title', { title: 'CTO' }, {}, { touch })
  const rows = await database.query('select attributes from people order by id')
  expect(rows).toEqual([
    { attributes: { enriched: { by: 'fillrate 1' }, confidence: 0.9 } },
    { attributes: { enriched: { by: 'fillrate 2' }, confidence: 0.9 } },
  ])
})
