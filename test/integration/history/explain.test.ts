import { beforeAll, describe, expect, test } from 'vitest'
import type { RowHistory } from '../../../src/domain/report/explain.ts'
import { listLookupFacts } from '../../../src/actions/explain/words.ts'
import { useHarness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

const config = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      joins: 'left join crm.owners o on o.contact = t.id',
      where: 't.deleted_at is null',
      inputs: { email: 't.email', linkedin_url: 't.linkedin' },
      outputs: {
        title: { field: 'title', policy: 'always' },
        'attributes.level': 'seniority',
        phone: { field: 'phone', matches: '^nothing$' },
      },
      touch: { enriched_at: 'now()' },
    },
    members: personSource('crm.members', { title: 'title' }),
    stock: {
      kind: 'company',
      table: 'crm.stock',
      inputs: { domain: "nullif(t.site, (1 / (case when t.site = 'bad.example' then 0 else 1 end))::text)" },
      outputs: { industry: 'industry' },
    },
  },
  budget: 'unlimited',
} as const

const TENANT = '6F9619FF-8B86-D011-B42D-00CF4FC964FF'

const harness = useHarness({
  config,
  sandbox: { missingShare: 0, notFoundShare: 0, jobDelayMs: [1, 10] },
  prepare: async ({ pool }) => {
    await pool.query(`
        create schema crm;
        create table crm.contacts (id bigint primary key, email text, linkedin text, title text, phone text,
          attributes jsonb, enriched_at timestamptz, deleted_at timestamptz);
        create table crm.owners (contact bigint, name text);
        create table crm.members (tenant uuid, no int, email text, title text, primary key (tenant, no));
        create table crm.stock (id uuid primary key, site text, industry text);
        insert into crm.contacts (id, email) select n, 'person' || n || '@example.com' from generate_series(1, 60) n;
        update crm.contacts set email = 'not an address', linkedin = 'https://linkedin.com/in/ada' where id = 2;
        update crm.contacts set email = 'nor this' where id = 3;
        update crm.contacts set deleted_at = now() where id = 4;
        insert into crm.members values ('${TENANT}', 7, 'ada@example.com', null);
        insert into crm.stock values ('${TENANT}', 'good.example', null)`)
  },
})
beforeAll(() => harness.run())

const explain = async (source: string, key: string): Promise<RowHistory> =>
  (await harness.open()).explain(source, key)

test('an enriched row in full: lookup, job, delivery, record, change and next step', async () => {
  const story = await explain('contacts', ' 17 ')
  expect(story).toMatchObject({
    key: '17',
    table: 'crm.contacts',
    row: { exists: true, excluded_by: null, inputs: { email: 'person17@example.com', linkedin_url: null } },
    state: { state: 'enriched', run: 1, inputs_changed: false },
    lookup: { kind: 'email', input: { email: 'person17@example.com' }, state: 'found', run: 1 },
    job: { state: 'completed', size: 58 },
    missed_lookups: [],
  })
  expect(story.record).toEqual(
    await harness.scalar(`select record from fillrate.lookups where key = 'person17@example.com'`),
  )
  const title = await harness.scalar('select title from crm.contacts where id = 17')
  const level = await harness.scalar(`select attributes ->> 'level' from crm.contacts where id = 17`)
  expect(story.row.columns).toMatchObject([
    {
      column: 'title',
      value: title,
      blank: false,
      policy: 'always',
      written_by_fillrate: true,
      written_by: 1,
    },
    { column: 'attributes.level', value: level, policy: 'blank', written_by_fillrate: true, written_by: 1 },
    { column: 'phone', value: null, blank: true, written_by_fillrate: false },
    { column: 'enriched_at', policy: null, written_by_fillrate: true, written_by: 1 },
  ])
  expect(story.fields).toContainEqual({
    field: 'phone',
    column: 'phone',
    value: expect.any(String),
    skipped: 'no_match',
    result: 'not written: the value does not match `matches`',
  })
  expect(story.changes).toMatchObject([
    {
      run: 1,
      undoes: null,
      undone_by: null,
      cells: [
        { column: 'title', before: null, after: title, undone: false },
        { column: 'attributes.level', before: null, after: level, undone: false },
        { column: 'enriched_at', before: null, undone: false },
      ],
    },
  ])
  expect(story.next.at?.getTime()).toBe(story.state?.due_at?.getTime())
})

test('a manual edit and an undo are shown cell by cell', async () => {
  await harness.query(`update crm.contacts set title = 'Typed' where id = 18`)
  expect((await explain('contacts', '18')).row.columns[0]).toMatchObject({
    value: 'Typed',
    written_by_fillrate: false,
    written_by: null,
  })
  const { run } = await harness.undo(1)
  const story = await explain('contacts', '18')
  expect(story.state).toMatchObject({ state: 'unchanged', run, notes: { undone: run } })
  expect(story.changes).toMatchObject([
    { run, undoes: 1, undone_by: null },
    {
      run: 1,
      undone_by: run,
      cells: [{ column: 'title', undone: false }, { undone: true }, { undone: true }],
    },
  ])
  expect(story.next.what).toContain('retry --state undone')
  await harness.undo(run ?? 0)
})

describe('rows with less history', () => {
  test('an unused input, and a row without any', async () => {
    const aside = await explain('contacts', '2')
    expect(aside.lookup).toMatchObject({ kind: 'linkedin_url' })
    expect(listLookupFacts(aside, 0)[0]?.[1]).toMatch(/^by profile URL: https:/)
    expect(aside.row.input_notes).toHaveLength(1)
    const none = await explain('contacts', '3')
    expect(none).toMatchObject({
      state: { state: 'invalid_input' },
      lookup: null,
      row: { lookup_request: null },
    })
    expect(none.next).toEqual({ what: 'nothing before its inputs change', at: null })
  })

  test('excluded by where, deleted since, never picked, inputs changed', async () => {
    expect(await explain('contacts', '4')).toMatchObject({ state: null, row: { excluded_by: 'where' } })
    await harness.query('delete from crm.contacts where id = 5')
    expect(await explain('contacts', '5')).toMatchObject({
      row: { exists: false, columns: [] },
      state: { state: 'enriched' },
      changes: [{ run: 3 }, { run: 2 }, { run: 1 }],
    })
    await harness.query(`insert into crm.contacts (id, email) values (100, 'New@Example.com')`)
    expect(await explain('contacts', '100')).toMatchObject({
      state: null,
      row: { lookup_request: { kind: 'email', input: { email: 'new@example.com' } } },
      next: { what: 'the next run picks it, and looks it up by email' },
    })
    await harness.query(`update crm.contacts set email = 'moved@example.com', title = null where id = 6`)
    expect((await explain('contacts', '6')).next.what).toContain('because its inputs have changed')
  })

  test('joins that return two rows, and a failing expression', async () => {
    await harness.query(`insert into crm.owners values (7, 'a'), (7, 'b')`)
    expect(await explain('contacts', '7')).toMatchObject({
      row: { join_count: 2 },
      next: { what: expect.stringMatching(/one row/) },
    })
    await harness.query(`update crm.stock set site = 'bad.example'`)
    expect(await explain('stock', TENANT)).toMatchObject({
      row: { problem: expect.stringMatching(/division by zero/) },
    })
    await harness.query(`update crm.stock set site = 'good.example'`)
  })
})

describe('keys as typed', () => {
  test.each([
    ['stock', TENANT.toLowerCase()],
    ['stock', TENANT],
    ['stock', `{${TENANT}}`],
    ['members', `["${TENANT}", 7]`],
    ['members', `[ "${TENANT.toLowerCase()}","7" ]`],
  ])('%s %s', async (source, key) => {
    const story = await explain(source, key)
    expect(story).toMatchObject({ row: { exists: true }, state: { state: 'enriched' } })
    expect(story.key).toBe(
      source === 'stock' ? TENANT.toLowerCase() : JSON.stringify([TENANT.toLowerCase(), '7']),
    )
  })

  test.each([
    ['contacts', 'abc', /id \(bigint\)/],
    ['contacts', '99999999999999999999', /id \(bigint\)/],
    ['contacts', '999', /has no row with this key \(999\)/],
    ['contacts', "1' or true --", /id \(bigint\)/],
    ['members', TENANT, /a JSON array of tenant \(uuid\) and no \(integer\)/],
    ['members', `["${TENANT}"]`, /a JSON array/],
    ['members', `["${TENANT}", "x"]`, /a JSON array/],
    ['stock', '17', /id \(uuid\)/],
    ['nothing', '1', /one of: contacts, members, stock/],
  ])('%s %s is rejected', async (source, key, message) => {
    await expect(explain(source, key)).rejects.toThrow(message)
  })
})
