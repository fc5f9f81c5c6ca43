import pino from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { type ForgetReport, forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { enforceRetention } from '../../../src/pipeline/retention.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { RunPolicy } from '../../../src/pipeline/deps.ts'
import { settleReceived } from '../../../src/pipeline/settle.ts'
import { useTestDatabase } from '../../support/database.ts'

/*
 * Three services, jobs in pages, quarantine, a cascade, a source that left the configuration: after `forget` nothing of the person is
 * in a dump, and everything of the others. Each value of Zora has her name, and each of Bob has his and a number.
 */

const database = useTestDatabase()
const query: typeof database.query = (...args) => database.query(...args)
beforeEach(() =>
  query(`
    truncate fillrate.services, fillrate.lookups, fillrate.rows, fillrate.changes, fillrate.suppressions, fillrate.skipped_cells,
             fillrate.deliveries, fillrate.jobs, fillrate.runs, fillrate.malformed_responses cascade;
    insert into fillrate.services (id, host, name) values (0, 'a.example', 'a'), (1, 'b.example', 'b'), (2, 'c.example', 'c')`),
)

/** All that a dump would have of the schema, bytes as text. */
async function dump(): Promise<string> {
  const tables = await query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'fillrate'`,
  )
  const texts = await Promise.all(
    tables.map(({ name }) => {
      const bytes = name === 'deliveries' ? `|| coalesce(encode(raw, 'escape'), '')` : ''
      return query<{ text: string }>(`select t::text ${bytes} as text from fillrate."${name}" t`)
    }),
  )
  return texts
    .flat()
    .map(({ text }) => text)
    .join('\n')
}
const listMarkers = (text: string): string[] => [...new Set(text.match(/bob-\d+/g))].sort()
const mentions = (text: string, name: RegExp): string[] => text.split('\n').filter((line) => name.test(line))

const forget = (typed: string, kind: 'email' | 'linkedin_url' = 'email'): Promise<ForgetReport> => {
  const target = parseForgetTarget(kind, typed)
  if (typeof target === 'string') throw new Error(target)
  return forgetSubject({ db: database.db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
}

/** A lookup that is answered; without a record, with a miss. @returns its id */
async function addLookup(service: number, kind: string, key: string, record?: object): Promise<number> {
  const [added] = await query<{ id: number }>(
    `insert into fillrate.lookups (service_id, kind, key, input, state, record, confidence, requested_at, resolved_at, refresh_at)
     values ($1, $2, $3, jsonb_build_object($2::text, $3::text), $4, $5, 0.9, now(), now(), now() + interval '1 day') returning id`,
    [service, kind, key, record ? 'found' : 'not_found', record ? JSON.stringify(record) : null],
  )
  return added?.id ?? 0
}
const addRow = (source: string, key: string, lookup: number | null, missed: number[] | null, rest = {}) => {
  const values = { source, key, state: 'enriched', lookup_id: lookup, settled_at: 'now', ...rest }
  return query(
    `insert into fillrate.rows (${Object.keys(values).join()}, missed_lookup_ids)
     select ${Object.keys(values).join()}, $2 from jsonb_populate_record(null::fillrate.rows, $1)`,
    [JSON.stringify(values), missed],
  )
}
const addChange = (source: string, key: string, lookup: number | null, value: string) =>
  query(
    `insert into fillrate.changes (source, key, lookup_id, before, after)
     values ($1, $2, $3, '{"title": null}', jsonb_build_object('title', $4::text))`,
    [source, key, lookup, value],
  )
async function addJob(service: number, lookups: readonly number[]): Promise<string> {
  const [added] = await query<{ key: string }>(
    `insert into fillrate.jobs (key, service_id, job_id, state, size, lookup_ids, request_ids, submitted_at, deadline_at)
     select gen_random_uuid(), $1::smallint, 'job-' || $1, 'submitted', cardinality($2::bigint[]), $2,
            (select json_agg('r:' || key order by id) from fillrate.lookups where id = any($2)), now(), now() + interval '1 day'
     returning key`,
    [service, lookups],
  )
  return added?.key ?? ''
}
const addDelivery = (
  job: string | null,
  state: string,
  results: readonly unknown[] | string,
  { event = 'e', quarantined = 0, service = 1 } = {},
) =>
  query(
    `insert into fillrate.deliveries (job_key, job_id, service_id, event_id, state, quarantined_results, body, raw)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      job,
      job === null ? 'unknown' : null,
      service,
      event,
      state,
      quarantined,
      typeof results === 'string' ? null : JSON.stringify({ event_id: event, status: 'completed', results }),
      typeof results === 'string' ? Buffer.from(results) : null,
    ],
  )

const PROFILE = 'linkedin.com/in/zora-l'

test('after forget a dump has nothing of the person in any service, and everything of the others', async () => {
  const bobs: number[] = []
  for (const service of [0, 1, 2])
    bobs.push(
      await addLookup(service, 'email', 'bob@x.example', {
        email: 'bob@x.example',
        title: `bob-${service}`,
        boss: 'zora.new@x.example',
      }),
    )
  const oldOfA = await addLookup(0, 'email', 'zora.old@x.example', { title: 'Zora 1', linkedin: PROFILE })
  const oldOfB = await addLookup(1, 'email', 'zora.old@x.example', { phone: 'Zora 2' })
  const newOfA = await addLookup(0, 'email', 'zora.new@x.example')
  const newOfB = await addLookup(1, 'email', 'zora.new@x.example', { email: 'Zora.New@x.example' })
  await addLookup(2, 'linkedin_url', PROFILE, { phone: 'Zora 3', private_email: 'zora@home.example' })
  await addLookup(1, 'email', 'zora@home.example', { phone: 'Zora 4' })
  const nameOfC = await addLookup(2, 'name_company', 'zora+byron|acme', { city: 'Zora 5' })
  await addLookup(1, 'linkedin_url', 'linkedin.com/in/countess', { personal_email: 'zora@home.example' })
  // A service that takes other details of a name.
  await addLookup(0, 'name_company', 'zora+byron|acme|zora|byron|acme.example', { city: 'Zora 6' })

  // A cascade; the record of an earlier address; a row of a source that is not configured; a deleted row.
  await addRow('people', '1', newOfB, [newOfA], { last_written: { title: 'Zora 7' } })
  await addChange('people', '1', oldOfA, 'Zora 8')
  await addRow('retired', 'r1', nameOfC, [newOfB], { own_writes: { linkedin: [PROFILE, null] } })
  await addRow('people', '2', null, null, {
    deleted_at: 'now',
    is_kept: true,
    may_be_hidden: false,
    last_written: { title: 'Zora 9' },
  })
  await addChange('people', '2', oldOfB, 'Zora 10')
  await addRow('people', '3', bobs[0] ?? 0, [bobs[1] ?? 0], { last_written: { title: 'bob-10' } })
  await addChange('people', '3', bobs[0] ?? 0, 'bob-11')
  await query(
    `insert into fillrate.skipped_cells (source, key, "column", lookup_id, reason, value)
     values ('people', '1', 'phone', $1, 'no_match', '"Zora 11"'), ('people', '3', 'phone', $2, 'no_match', '"bob-12"')`,
    [newOfB, bobs[0]],
  )
  await query(
    `insert into fillrate.malformed_responses (lookup_id, status, body) values ($1, 200, 'Zora 12'), ($2, 200, 'bob-13')`,
    [oldOfB, bobs[1]],
  )
  await query(`
    insert into fillrate.runs (trigger, sources, state, options, owner, lease_token, leased_until, finished_at)
    values ('manual', '{people}', 'completed', '{"where": "email in (''ZORA.OLD@x.example'', ''bob-14'')"}', 'o', gen_random_uuid(), now(), now())`)

  // Pages without names: the second begins at the third input.
  const paged = await addJob(1, [bobs[1] ?? 0, newOfB, oldOfB])
  const page = (titles: readonly string[]): object[] => titles.map((title) => ({ data: { title } }))
  await addDelivery(paged, 'partial', page(['bob-20', 'Zora 13']), { event: 'page:1:000000' })
  await addDelivery(paged, 'partial', page(['Zora 14']), { event: 'page:1:000001' })
  // Nothing confirms whose these are, but those that name themselves.
  await addDelivery(
    paged,
    'quarantined',
    [
      { data: { title: 'Zora 15' } },
      { data: { title: 'Zora 16', linkedin: `https://www.${PROFILE}/` } },
      { data: { title: 'bob-21', email: 'bob@x.example' } },
      { data: { title: 'Zora 17' } },
    ],
    { quarantined: 4 },
  )
  await addDelivery(paged, 'quarantined', 'unreadable: Zora 18')
  await addDelivery(null, 'orphaned', [
    { data: { title: 'Zora 19', linkedin: PROFILE, email: 'zora@third.example' } },
    { data: { title: 'bob-22', email: 'bob@x.example', boss: 'zora@third.example' } },
  ])
  await addDelivery(null, 'quarantined', 'unreadable: zora.old@x.example is Zora 20')
  await addDelivery(null, 'quarantined', 'unreadable: bob-23')

  const before = listMarkers(await dump())
  expect(before).toHaveLength(12)
  const report = await forget('zora.new@x.example')
  expect(report).toMatchObject({ erased: { linked_lookups: 7, lookups: 9 }, remaining: [] })
  const after = await dump()
  expect(mentions(after, /zora|countess/i)).toEqual([])
  expect(listMarkers(after)).toEqual(before)
  expect(await forget('zora.new@x.example')).toMatchObject({ erased: { lookups: 0, rows: 0, results: 0 } })
})

test("an earlier address that another row uses at any service is that row's", async () => {
  const zora = await addLookup(0, 'email', 'zora.new@x.example', { title: 'Zora 1' })
  const sharedOfA = await addLookup(0, 'email', 'info@x.example', { title: 'bob-1' })
  const sharedOfB = await addLookup(1, 'email', 'info@x.example', { title: 'bob-2' })
  await addRow('people', '1', zora, null)
  await addChange('people', '1', sharedOfA, 'Zora 2')
  await addRow('people', '2', sharedOfB, null)
  await forget('zora.new@x.example')
  const after = await dump()
  expect(mentions(after, /zora/i)).toEqual([])
  expect(listMarkers(after)).toEqual(['bob-1', 'bob-2'])
})

test('a record that expires leaves the identifier, as long as a row or a change of the person stays', async () => {
  const policy = { recordsMs: 5 * 86_400_000, deliveriesMs: 1e12, changesMs: 10 * 86_400_000 }
  const age = (days: number) =>
    query(`
      update fillrate.lookups set resolved_at = resolved_at - interval '${days} days';
      update fillrate.changes set written_at = written_at - interval '${days} days'`)
  const old = await addLookup(0, 'email', 'zora.old@x.example', { title: 'Zora 1' })
  const now = await addLookup(0, 'email', 'zora.new@x.example', { title: 'Zora 2' })
  await addLookup(1, 'email', 'unused@x.example', undefined)
  await addRow('people', '1', now, null, { last_written: { title: 'Zora 3' } })
  await addChange('people', '1', old, 'Zora 4')
  await age(6)
  const sweep = () => enforceRetention({ db: database.db }, policy, { after: 0 })
  expect((await sweep()).deleted).toMatchObject({ records: 3 })
  expect((await sweep()).deleted).toMatchObject({ records: 0 })
  expect(
    await query('select key, state, record, refresh_at <= now() as due from fillrate.lookups order by key'),
  ).toEqual([
    { key: 'zora.new@x.example', state: 'failed', record: null, due: true },
    { key: 'zora.old@x.example', state: 'failed', record: null, due: true },
  ])
  expect(await forget('zora.old@x.example')).toMatchObject({ erased: { lookups: 1, changes: 1 } })
  expect(mentions(await dump(), /Zora 4|zora\.old/)).toEqual([])
  await age(10)
  await query('delete from fillrate.rows')
  expect((await sweep()).deleted).toMatchObject({ records: 1 })
  expect(await query('select from fillrate.lookups')).toEqual([])
})

const settle = () =>
  settleReceived({
    db: database.db,
    log: pino({ level: 'silent' }),
    policy: { bulkGraceMs: 1, refreshAfterMs: 1e9, retryNotFoundAfterMs: 1e9 } as RunPolicy,
    now: Date.now,
    adapter: BUILT_IN_SERVICE,
  })

test('what is quarantined has no result of a person who was erased meanwhile', async () => {
  const zora = await addLookup(1, 'email', 'zora@x.example', { title: 'Zora 1' })
  const bob = await addLookup(1, 'email', 'bob@x.example', { title: 'bob-1' })
  const job = await addJob(1, [zora, bob])
  await forget('zora@x.example')
  await addDelivery(job, 'received', [
    { data: { title: 'Zora 2' } },
    { data: { title: 'Zora 3' } },
    { data: { title: 'bob-2', email: 'bobby@x.example' } },
  ])
  await settle()
  expect(await query('select state, quarantined_results from fillrate.deliveries')).toEqual([
    { state: 'quarantined', quarantined_results: 3 },
  ])
  const after = await dump()
  expect(mentions(after, /zora/i)).toEqual([])
  expect(listMarkers(after)).toEqual(['bob-1', 'bob-2'])
})

test('nor has what cannot be settled', async () => {
  const bob = await addLookup(1, 'email', 'bob@x.example')
  await forget('zora@x.example')
  const job = await addJob(1, [bob])
  await query(`
    update fillrate.lookups set state = 'submitted', resolved_at = null, job_key = '${job}';
    create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '22000'; end $$;
    create trigger fail before update on fillrate.lookups for each row execute function fail()`)
  try {
    await addDelivery(job, 'received', [
      { request_id: 'zora@x.example', data: { email: 'zora@x.example', title: 'Zora 1', confidence: 1 } },
      { request_id: 'bob@x.example', data: { email: 'bob@x.example', title: 'bob-1', confidence: 1 } },
    ])
    await settle()
  } finally {
    await query('drop trigger fail on fillrate.lookups; drop function fail()')
  }
  expect(await query('select state from fillrate.deliveries')).toEqual([{ state: 'quarantined' }])
  const after = await dump()
  expect(mentions(after, /zora/i)).toEqual([])
  expect(listMarkers(after)).toEqual(['bob-1'])
})
