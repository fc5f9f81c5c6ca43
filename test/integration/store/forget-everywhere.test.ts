import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { type ForgetReport, forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { RunPolicy } from '../../../src/pipeline/deps.ts'
import { enforceRetention } from '../../../src/pipeline/retention.ts'
import { settleReceived } from '../../../src/pipeline/settle.ts'
import { useTestDatabase } from '../../support/database.ts'

/*
 * Three services, jobs in pages, quarantine, a cascade, a source that left the configuration: after `forget`
 * nothing of the person is in a dump, and everything of the others. Each value of Zora has her name, and
 * each of Bob has his and a number.
 */

const database = useTestDatabase()
const log = pino({ level: 'silent' })
const TABLES = 'services lookups rows changes suppressions skipped_cells deliveries jobs runs'
beforeEach(async () => {
  const tables = TABLES.split(' ').map((table) => `fillrate.${table}`)
  await database.query(`truncate ${tables.join()} cascade`)
  for (const id of [0, 1, 2]) await add('services', { id, host: `${id}.example` })
})

async function add(table: string, values: object): Promise<number> {
  const columns = Object.keys(values)
  const [row] = await database.query<{ id: number }>(
    `insert into fillrate.${table} (${columns.map((name) => `"${name}"`).join()})
     values (${columns.map((_, n) => `$${n + 1}`).join()}) returning *`,
    Object.values(values),
  )
  return row?.id ?? 0
}
/** A lookup that is answered: without a record by a miss. */
const addLookup = (service_id: number, kind: string, key: string, record: object | null = null) => {
  const times = { requested_at: 'now', resolved_at: 'now', refresh_at: 'tomorrow' }
  const state = record === null ? 'not_found' : 'found'
  return add('lookups', { service_id, kind, key, input: { [kind]: key }, state, record, ...times })
}
const addRow = (source: string, key: string, lookup_id: number | null, rest: object = {}) =>
  add('rows', { source, key, lookup_id, state: 'enriched', settled_at: 'now', ...rest })
const addChange = (key: string, lookup_id: number, title: string) =>
  add('changes', { source: 'people', key, lookup_id, before: { title: null }, after: { title } })
async function addJob(lookup_ids: readonly number[]): Promise<string> {
  const key = randomUUID()
  const size = lookup_ids.length
  const rest = { service_id: 1, state: 'submitted', submitted_at: 'now', deadline_at: 'tomorrow' }
  await add('jobs', { key, lookup_ids, size, request_ids: { 'Zora.Old@x.example': 1 }, ...rest })
  return key
}
const addDelivery = (job_key: string | null, state: string, results: readonly object[], event_id = 'e') => {
  const body = JSON.stringify({ event_id, job_id: job_key ?? 'unknown', status: 'completed', results })
  return add('deliveries', { job_key, service_id: 1, event_id, state, body })
}
const addUnreadable = (job_key: string | null, raw: string) =>
  add('deliveries', { job_key, event_id: 'e', state: 'quarantined', raw: Buffer.from(raw) })
/** Results of these people, with what else they name. */
const result = (title: string, names: object = {}) => ({ data: { title, confidence: 1, ...names } })

/** All that a dump would have of the schema, bytes as text. */
async function dump(): Promise<string> {
  const tables = await database.query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'fillrate'`,
  )
  const lines: string[] = []
  for (const { name } of tables) {
    const bytes = name === 'deliveries' ? `|| coalesce(encode(raw, 'escape'), '')` : ''
    const rows = await database.query<{ text: string }>(
      `select t::text ${bytes} as text from fillrate."${name}" t`,
    )
    lines.push(...rows.map(({ text }) => text))
  }
  return lines.join('\n')
}
const findZora = async () => (await dump()).split('\n').filter((line) => /zora|countess/i.test(line))
const findBobs = async () => [...new Set((await dump()).match(/bob-\d+/g))].sort()
const forget = (email: string): Promise<ForgetReport> => {
  const target = parseForgetTarget('email', email)
  if (typeof target === 'string') throw new Error(target)
  return forgetSubject({ db: database.db, log }, [target], { dryRun: false })
}

const PROFILE = 'linkedin.com/in/zora-l'
const BOB = 'bob@x.example'

test('after forget a dump has nothing of the person of any service, and everything of the others', async () => {
  const bobs: number[] = []
  for (const service of [0, 1, 2])
    bobs.push(await addLookup(service, 'email', BOB, { title: `bob-${service}`, boss: 'zora.new@x.example' }))
  const oldOfA = await addLookup(0, 'email', 'zora.old@x.example', { title: 'Zora 1', linkedin: PROFILE })
  const oldOfB = await addLookup(1, 'email', 'zora.old@x.example', { phone: 'Zora 2' })
  const newOfA = await addLookup(0, 'email', 'zora.new@x.example')
  const newOfB = await addLookup(1, 'email', 'zora.new@x.example', { email: 'Zora.New@x.example' })
  await addLookup(2, 'linkedin_url', PROFILE, { phone: 'Zora 3', private_email: 'zora@home.example' })
  await addLookup(1, 'email', 'zora@home.example', { phone: 'Zora 4' })
  await addLookup(1, 'linkedin_url', 'linkedin.com/in/countess', { personal_email: 'zora@home.example' })
  const name = await addLookup(2, 'name_company', 'zora+byron|acme', { city: 'Zora 5' })
  // At a service that takes other details of a name.
  await addLookup(0, 'name_company', 'zora+byron|acme|zora|byron|acme.example', { city: 'Zora 6' })

  // A cascade; the record of an earlier address; a row of a source that is not configured; a deleted row.
  await addRow('people', '1', newOfB, { missed_lookup_ids: [newOfA], last_written: { title: 'Zora 7' } })
  await addChange('1', oldOfA, 'Zora 8')
  const own_writes = { linkedin: [PROFILE, null] }
  await addRow('retired', 'r1', name, { missed_lookup_ids: [newOfB], own_writes })
  const deleted = { deleted_at: 'now', is_kept: true, may_be_hidden: false }
  await addRow('people', '2', null, { ...deleted, last_written: { title: 'Zora 9' } })
  await addChange('2', oldOfB, 'Zora 10')
  await addRow('people', '3', bobs[0] ?? 0, {
    missed_lookup_ids: [bobs[1]],
    last_written: { title: 'bob-10' },
  })
  await addChange('3', bobs[0] ?? 0, 'bob-11')
  for (const [key, lookup_id, title, more] of [
    ['1', newOfB, 'Zora 11', 'Zora 12'],
    ['3', bobs[1], 'bob-12', 'bob-13'],
  ]) {
    const cell = { source: 'people', key, column: 'phone', reason: 'no_match', value: JSON.stringify(title) }
    await add('skipped_cells', { ...cell, lookup_id })
    await database.query('update fillrate.lookups set malformed = $2 where id = $1', [
      lookup_id,
      { status: 200, body: more },
    ])
  }
  const ended = {
    state: 'completed',
    owner: 'o',
    lease_token: randomUUID(),
    leased_until: 'now',
    finished_at: 'now',
  }
  const options = { where: `email in ('ZORA.OLD@x.example', 'bob-14')` }
  await add('runs', { trigger: 'manual', sources: ['people'], options, ...ended })

  // Pages without names: the second begins at the third input.
  const job = await addJob([bobs[1] ?? 0, newOfB, oldOfB])
  await addDelivery(job, 'partial', [result('bob-20'), result('Zora 13')], 'page:1:000000')
  await addDelivery(job, 'partial', [result('Zora 14')], 'page:1:000001')
  // Nothing confirms whose these are, but those that name themselves.
  const named = [result('Zora 15', { linkedin: `https://www.${PROFILE}/` }), result('bob-21', { email: BOB })]
  await addDelivery(job, 'quarantined', [result('Zora 16'), ...named, result('Zora 17')])
  await addDelivery(null, 'orphaned', [
    result('Zora 18', { linkedin: PROFILE, email: 'zora@third.example' }),
    result('bob-22', { email: BOB, boss: 'zora.old@x.example' }),
  ])
  // A key of the user's table that is an address is listed by when it is due, too.
  for (const key of ['zora@home.example', 'bob-24']) await addRow('keyed', key, null, { due_at: 'tomorrow' })
  await addUnreadable(job, 'Zora 19')
  await addUnreadable(null, 'zora.old@x.example is Zora 20')
  await addUnreadable(null, 'bob-23')

  const before = await findBobs()
  expect(before).toHaveLength(13)
  const report = await forget('zora.new@x.example')
  expect(report).toMatchObject({ erased: { linked_lookups: 7, lookups: 9, rows: 3 }, remaining: [] })
  expect([await findZora(), await findBobs()]).toEqual([[], before])
  expect(await forget('zora.new@x.example')).toMatchObject({ erased: { lookups: 0, rows: 0, results: 0 } })
})

test('an earlier address that another row uses at any service is of that row', async () => {
  const zora = await addLookup(0, 'email', 'zora@x.example', { title: 'Zora 1' })
  const [ofA, ofB] = [
    await addLookup(0, 'email', 'info@x.example', { title: 'bob-1' }),
    await addLookup(1, 'email', 'info@x.example', { title: 'bob-2' }),
  ]
  await addRow('people', '1', zora)
  await addChange('1', ofA, 'Zora 2')
  await addRow('people', '2', ofB)
  await forget('zora@x.example')
  expect([await findZora(), await findBobs()]).toEqual([[], ['bob-1', 'bob-2']])
})

test('a record that expires leaves its identifier, as long as a row or a change of the person stays', async () => {
  const day = 86_400_000
  const policy = { recordsMs: 5 * day, deliveriesMs: 5 * day, changesMs: 10 * day }
  const sweep = async () =>
    (await enforceRetention({ db: database.db }, policy, { after: 0 })).deleted.records
  const age = (days: number) =>
    database.query(`update fillrate.lookups set resolved_at = resolved_at - interval '${days} days'`)
  const earlier = await addLookup(0, 'email', 'zora.old@x.example', { title: 'Zora 1' })
  await addRow('people', '1', await addLookup(0, 'email', 'zora@x.example', { title: 'Zora 2' }))
  await addChange('1', earlier, 'Zora 3')
  await addLookup(1, 'email', BOB)
  await age(6)
  expect([await sweep(), await sweep()]).toEqual([3, 0])
  expect(
    await database.query('select state, record, refresh_at <= now() as is_due from fillrate.lookups'),
  ).toEqual([1, 2].map(() => ({ state: 'failed', record: null, is_due: true })))
  await age(10)
  // No change can name the first any more, and a row has the second.
  expect(await sweep()).toBe(1)
  await addChange('1', 0, 'Zora 4')
  await forget('zora@x.example')
  expect(await findZora()).toEqual([])
})

test('what is quarantined has no result of a person who was erased meanwhile, also if settling it failed', async () => {
  const policy = { bulk: { graceMs: 1 }, refreshAfterMs: 1e9, retryNotFoundAfterMs: 1e9 } as RunPolicy
  const settle = () =>
    settleReceived({ db: database.db, log, policy, now: Date.now, adapter: BUILT_IN_SERVICE })
  const zora = await addLookup(1, 'email', 'zora.old@x.example', { title: 'Zora 1' })
  const bob = await addLookup(1, 'email', BOB)
  const job = await addJob([zora, bob])
  await forget('zora.old@x.example')
  const stranger = result('bob-1', { email: 'bobby@x.example' })
  await addDelivery(job, 'received', [result('Zora 2'), result('Zora 3'), stranger])
  await settle()
  await database.query(`
    update fillrate.lookups set state = 'submitted', resolved_at = null, job_key = '${job}';
    create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '22000'; end $$;
    create trigger fail before update on fillrate.lookups for each row execute function fail()`)
  try {
    const results = [result('Zora 4', { email: 'zora.old@x.example' }), result('bob-2', { email: BOB })]
    await addDelivery(job, 'received', results, 'second')
    await settle()
  } finally {
    await database.query('drop trigger fail on fillrate.lookups; drop function fail()')
  }
  expect(
    await database.query('select state, quarantined_results from fillrate.deliveries order by event_id'),
  ).toEqual([3, 0].map((quarantined_results) => ({ state: 'quarantined', quarantined_results })))
  expect([await findZora(), await findBobs()]).toEqual([[], ['bob-1', 'bob-2']])
})
