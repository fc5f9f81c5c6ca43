import pino from 'pino'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { forgetSubject, type ForgetReport } from '../../../src/actions/forget.ts'
import { parseForgetTarget, type NamedKind } from '../../../src/actions/forget-target.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { recordHashes, settleUnstored } from '../../../src/pipeline/erasure.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { claimDeliveries } from '../../../src/store/deliveries.ts'
import { completeLookups, type LookupResult } from '../../../src/store/lookup-leases.ts'
import { listRunSpend } from '../../../src/store/spend.ts'
import { suppressionHash } from '../../../src/store/suppressions.ts'
import { whileOpen } from '../../support/answered-people.ts'
import { foundResult } from '../../support/found-result.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
let source: Source
beforeAll(async () => {
  await database.query('create table people (id int primary key, email text, title text)')
  const inputs = { email: 't.email' }
  const people = { kind: 'person', table: 'people', inputs, outputs: { title: 'title' } }
  const [mapping] = Object.values(parseConfig({ sources: { people } }, null).sources)
  if (mapping === undefined) throw new Error('no source')
  source = await openSource(database.db, mapping)
})
beforeEach(() =>
  database.query(`
    truncate people, fillrate.rows, fillrate.lookups, fillrate.changes, fillrate.suppressions,
             fillrate.spend, fillrate.skipped_cells, fillrate.deliveries`),
)
/** A row whose record was written, with its lookup. */
const addRow = (id: number, email: string, record: object): Promise<unknown> =>
  database.query(`
    with l as (
      insert into fillrate.lookups (kind, key, input, state, record, confidence, requested_at, resolved_at, refresh_at)
      values ('email', '${email}', '{"email": "${email}"}', 'found', '${JSON.stringify(record)}', 0.9, now(), now(), now()) returning id
    ), c as (
      insert into fillrate.changes (run_id, lookup_id, source, key, before, after)
      select 1, id, 'people', '${id}', '{"title": null}', '{"title": "Title ${id}"}' from l
    ), p as (
      insert into people values (${id}, '${email}', 'Title ${id}') on conflict do nothing
    )
    insert into fillrate.rows (source, key, state, lookup_id, settled_at, last_written)
    select 'people', '${id}', 'enriched', id, now(), '{"title": "Title ${id}"}' from l
    on conflict (source, key) do update set lookup_id = excluded.lookup_id`)
const forget = (
  kind: NamedKind,
  typed: string,
  options: { readonly includeLinked?: boolean; readonly dryRun?: boolean } = {},
): Promise<ForgetReport> => {
  const target = parseForgetTarget(kind, typed)
  if (typeof target === 'string') throw new Error(target)
  const deps = { db: database.db, log: pino({ level: 'silent' }), sources: [source] }
  return forgetSubject(deps, [target], { dryRun: false, ...options })
}

test('a person whose record mentions the erased address stays, without the mention', async () => {
  for (const id of [1, 2, 3])
    await addRow(id, `p${id}@c.example`, {
      email: `p${id}@c.example`,
      title: 'CTO',
      company: { email: 'info@c.example' },
      note: 'ask info@c.example first',
      boss: 'p1@c.example',
    })
  await database.query(`
    insert into fillrate.changes (source, key, before, after)
    values ('people', '2', '{"mail": "info@c.example", "title": null}', '{"mail": "x@c.example", "title": "CTO"}')`)
  expect(await forget('email', 'info@c.example')).toMatchObject({
    erased: { lookups: 0, rows: 0, changes: 0 },
    remaining: [],
  })
  expect(await database.query(`select count(*)::int as n from fillrate.suppressions`)).toEqual([{ n: 1 }])
  expect(await database.query(`select record from fillrate.lookups order by id limit 1`)).toEqual([
    {
      record: {
        email: 'p1@c.example',
        title: 'CTO',
        company: { email: null },
        note: 'ask [erased] first',
        boss: 'p1@c.example',
      },
    },
  ])
  // Undo would write a placeholder.
  expect(await database.query(`select before, after from fillrate.changes where lookup_id is null`)).toEqual([
    { before: { title: null }, after: { title: 'CTO' } },
  ])
  // One of them is erased alone, not those who name them.
  expect(await forget('email', 'p1@c.example')).toMatchObject({ erased: { lookups: 1, linked_lookups: 0 } })
  expect(await database.query(`select key from fillrate.rows where state = 'enriched' order by key`)).toEqual(
    [{ key: '2' }, { key: '3' }],
  )
})

test('more linked lookups than one person has are erased with a confirmation only', async () => {
  await addRow(1, 'a0@c.example', {})
  for (let n = 1; n <= 11; n++) await addRow(1, `a${n}@c.example`, {})
  expect(await forget('email', 'a11@c.example', { dryRun: true })).toMatchObject({
    erased: { lookups: 12, linked_lookups: 11 },
  })
  await expect(forget('email', 'a11@c.example')).rejects.toThrow(
    /^11 other identifiers .* nothing was erased$/,
  )
  expect(await database.query('select from fillrate.suppressions')).toEqual([])
  expect(await forget('email', 'a11@c.example', { includeLinked: true })).toMatchObject({
    erased: { lookups: 12 },
  })
  expect(await database.query(`select count(*)::int as n from fillrate.suppressions`)).toEqual([{ n: 12 }])
})

test('after the records have expired, the rows are found by their present inputs', async () => {
  await addRow(1, 'ada@c.example', { title: 'Title 1' })
  await addRow(2, 'bob@c.example', { title: 'Title 2' })
  await database.query(`update people set email = ' ADA@c.example' where id = 1`)
  await database.query('delete from fillrate.lookups')
  expect(await forget('email', 'ada@c.example')).toMatchObject({
    erased: { rows: 1, changes: 1 },
    rows: [{ source: 'people', key: '1' }],
    searched: { sources: ['people'] },
    remaining: [],
  })
  expect(await database.query('select key, state, last_written from fillrate.rows order by key')).toEqual([
    { key: '1', state: 'suppressed', last_written: null },
    { key: '2', state: 'enriched', last_written: { title: 'Title 2' } },
  ])
  expect(await database.query('select key from fillrate.changes')).toEqual([{ key: '2' }])
  expect((await forget('email', 'ada@c.example')).erased).toMatchObject({ rows: 0, changes: 0 })
})

test('forget waits for a transaction that has read the list, and not for a dump', async () => {
  await addRow(1, 'ada@c.example', {})
  await whileOpen(database, 'lock table fillrate.suppressions in access share mode', () =>
    forget('email', 'ada@c.example'),
  )
  let isDone = false
  await database.db.transaction().execute(async (tx) => {
    await claimDeliveries(tx, 1, 1)
    const waiting = forget('email', 'bob@c.example').then(() => (isDone = true))
    waiting.catch(() => {})
    await expect
      .poll(() =>
        database.query(
          `select from pg_locks where mode = 'ExclusiveLock' and not granted and relation is not null`,
        ),
      )
      .toHaveLength(1)
    expect(isDone).toBe(false)
  })
  await expect.poll(() => isDone).toBe(true)
})

const token = '00000000-0000-4000-8000-000000000001'
/** Lookups 1 to `count` in the middle of their calls. */
const addCalls = (count: number): Promise<unknown> =>
  database.query(`
    insert into fillrate.lookups (id, kind, key, input, state, run_id, source, lease_token, leased_until)
    overriding system value
    select n, 'email', 'p' || n || '@c.example', '{}', 'leased', 7, 'people', '${token}', now() + interval '1 hour'
      from generate_series(1, ${count}) n`)
const answer = (id: number, record: Record<string, unknown>): LookupResult => ({
  ...foundResult(id, record),
  token,
  call: 'billed',
  ...recordHashes('email', record),
})

test('each billed answer is counted, stored or not, and one that mentions an erased address is stored', async () => {
  await addCalls(4)
  await database.query(
    `insert into fillrate.suppressions (kind, hash) values ('email', '${suppressionHash('email', 'erased@c.example')}')`,
  )
  await forget('email', 'p4@c.example')
  const results = [
    answer(1, { email: 'p1@c.example' }),
    answer(2, { email: 'erased@c.example' }),
    answer(3, { email: 'p3@c.example', boss: 'erased@c.example' }),
    answer(4, { email: 'p4@c.example' }),
  ]
  const { unstored } = await completeLookups(database.db, results)
  expect(unstored.map(({ id }) => id)).toEqual([2, 3, 4])
  await settleUnstored(database.db, unstored)
  expect(await database.query('select id::int, record from fillrate.lookups order by id')).toEqual([
    { id: 1, record: { email: 'p1@c.example' } },
    { id: 3, record: { email: 'p3@c.example', boss: null } },
  ])
  // The lookup of the fourth was erased during its call.
  expect(await listRunSpend(database.db, [7])).toMatchObject([{ lookups: 3, credits: 3, in_doubt: 1 }])
})

test("a record's subject is what it gives as its own: a domain only of a company", () => {
  const record = { email: 'ada@c.example', domain: 'c.example', company_email: 'info@c.example' }
  const hash = (kind: 'email' | 'domain', key: string) => suppressionHash(kind, key)
  expect(recordHashes('email', record)).toEqual({
    subjectHashes: [hash('email', 'ada@c.example')],
    hashes: [hash('email', 'ada@c.example'), hash('email', 'info@c.example')],
  })
  expect(recordHashes('domain', { domain: 'c.example', email: 'info@c.example' }).subjectHashes).toEqual([
    hash('domain', 'c.example'),
  ])
})

test('what other transactions store behind the erasure is erased by its meaning: no placeholder is ever written or sent', async () => {
  await addRow(1, 'gone@c.example', { email: 'gone@c.example', title: 'Title 1' })
  await addRow(2, 'stays@c.example', { email: 'stays@c.example', title: 'Title 2' })
  // Just when the cells have been searched: an undo stores what a row held, and the service delivers.
  await database.query(`
    create function store_late() returns trigger language plpgsql as $$ begin
      if not exists (select from fillrate.changes where key = '3') then
        insert into fillrate.changes (source, key, before, after)
        values ('people', '3', '{"mail": "gone@c.example", "title": "T:gone@c.example", "city": "Bern"}', '{"mail": null, "title": null, "city": null}');
        insert into fillrate.lookups (kind, key, input, state)
        values ('email', 'gone+late@c.example', '{"email": "gone@c.example"}', 'pending');
        insert into fillrate.deliveries (event_id, state, body)
        values ('late', 'received', '{"event_id": "late", "job_id": "j", "status": "completed", "results": [
          {"request_id": "gone@c.example", "data": {"email": "gone@c.example", "title": "T:gone@c.example", "confidence": 1}},
          {"request_id": "stays@c.example", "data": {"email": "stays@c.example", "confidence": 1}}]}');
      end if;
      return null;
    end $$;
    create trigger store_late after delete on fillrate.skipped_cells for each statement execute function store_late()`)
  try {
    expect(await forget('email', 'gone@c.example')).toMatchObject({ remaining: [] })
  } finally {
    await database.query('drop trigger store_late on fillrate.skipped_cells; drop function store_late()')
  }
  expect(await database.query(`select before from fillrate.changes where key = '3'`)).toEqual([
    { before: { city: 'Bern' } },
  ])
  expect(await database.query(`select key from fillrate.lookups`)).toEqual([{ key: 'stays@c.example' }])
  const [{ body } = { body: '' }] = (await database.query(`select body from fillrate.deliveries`)) as {
    body: string
  }[]
  expect((JSON.parse(body) as { results: unknown[] }).results).toEqual([
    null,
    { request_id: 'stays@c.example', data: { email: 'stays@c.example', confidence: 1 } },
  ])
  for (const column of ['lookups', 'changes', 'rows', 'deliveries'])
    expect(
      await database.query(`select * from fillrate.${column} t where t::text like '%[erased]%'`),
    ).toEqual([])
})
