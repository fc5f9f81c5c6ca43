import { afterAll, beforeAll, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import * as pauses from '../../../src/store/source-state.ts'
import { startDaemon, type Stop } from '../../support/app-processes.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

const config = {
  ...crmConfig,
  sources: {
    contacts: {
      ...crmConfig.sources.contacts,
      inputs: { email: 't.email', name: "concat_ws(' ', t.first_name, t.last_name)", company: 'a.name' },
      joins: 'left join crm.employers a on a.contact = t.id',
      where: "t.first_name <> 'Hidden'",
      follow: true,
    },
  },
}

let app: App
let stop: Stop

const harness = useHarness({
  config,
  sandbox: { notFoundShare: 0, missingShare: 0 },
  prepare: async ({ pool }) => {
    await createCrm(pool, 20)
    await pool.query('create table crm.employers (contact bigint, name text)')
  },
})
beforeAll(async () => {
  app = await harness.open({ environment: { webhookSecrets: [] } })
  await app.follow('install', 'contacts')
  stop = startDaemon(app)
})
afterAll(() => stop())

const enriched = (ids: readonly number[]): Promise<number> =>
  harness
    .query<{ count: number }>(
      'select count(*)::int as count from crm.contacts where id = any($1) and phone is not null',
      [ids],
    )
    .then(([row]) => row?.count ?? 0)
const recorded = (): Promise<number> =>
  harness
    .query<{ count: number }>('select count(*)::int as count from fillrate.changed_rows')
    .then(([row]) => row?.count ?? -1)
const insert = async (...emails: readonly (string | null)[]): Promise<number[]> =>
  (
    await harness.query<{ id: string }>(
      `insert into crm.contacts (email, first_name) select e, 'Ada' from unnest($1::text[]) e returning id`,
      [emails],
    )
  ).map((row) => Number(row.id))

test('new rows are enriched, earlier ones are not', async () => {
  const ids = await insert('new1@example.com', 'new2@example.com', 'new3@example.com')
  await expect.poll(() => enriched(ids), { interval: 20 }).toBe(3)
  expect(await enriched([1, 2, 3])).toBe(0)
})

test('a row is enriched when an input changes, and not otherwise', async () => {
  const [id = 0] = await insert(null)
  await expect.poll(recorded, { interval: 20 }).toBe(0)
  await harness.query(`update crm.contacts set title = 'typed' where id = $1`, [id])
  expect(await recorded()).toBe(0)
  await harness.query(`update crm.contacts set email = email, title = 'typed again' where id = $1`, [id])
  expect(await recorded()).toBe(0)
  await harness.query(`update crm.contacts set email = 'came.later@example.com' where id = $1`, [id])
  await expect.poll(() => enriched([id]), { interval: 20 }).toBe(1)
  const [row] = await harness.query<{ title: string }>('select title from crm.contacts where id = $1', [id])
  expect(row?.title).toBe('typed again')
})

test('a row that enters the source is enriched', async () => {
  const [id = 0] = await insert('hidden@example.com')
  await expect.poll(() => enriched([id]), { interval: 20 }).toBe(1)
  await harness.query(
    `update crm.contacts set first_name = 'Hidden', phone = null, email = 'seen@example.com' where id = $1`,
    [id],
  )
  await expect.poll(recorded, { interval: 20 }).toBe(0)
  expect(await enriched([id])).toBe(0)
  await harness.query(`update crm.contacts set first_name = 'Seen' where id = $1`, [id])
  await expect.poll(() => enriched([id]), { interval: 20 }).toBe(1)
})

test('an import is one entry of the queue, and is enriched eventually', async () => {
  const emails = Array.from({ length: 150 }, (_, n) => `import${n}@example.com`)
  const client = await harness.database.pool.connect()
  try {
    await client.query('begin')
    await client.query(
      `insert into crm.contacts (email, first_name) select e, 'Ada' from unnest($1::text[]) e`,
      [emails],
    )
    const { rows } = await client.query<{ keys: number }>(
      'select cardinality(keys) as keys from fillrate.changed_rows',
    )
    expect(rows).toEqual([{ keys: 150 }])
    await client.query('commit')
  } finally {
    client.release()
  }
  const ids = await harness.query<{ id: string }>(`select id from crm.contacts where email like 'import%'`)
  await expect.poll(() => enriched(ids.map((row) => Number(row.id))), { interval: 50 }).toBe(150)
  const triggers = await harness.query<{ trigger: string }>(
    'select distinct trigger from fillrate.runs order by 1',
  )
  expect(triggers.map((row) => row.trigger)).toEqual(['backfill', 'follow'])
})

test('own writes are ignored, and no lookup is repeated', async () => {
  await expect.poll(recorded, { interval: 20 }).toBe(0)
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(inputs.max_requested).toBe(1)
})

test('a change to a row being picked is not lost', async () => {
  const [id = 0] = await insert('first@example.com')
  for (let n = 0; n < 20; n++)
    await harness.query('update crm.contacts set email = $2, phone = null where id = $1', [
      id,
      `again${n}@example.com`,
    ])
  await expect
    .poll(
      async () =>
        (
          await harness.query<{ input: string }>(
            `select l.input ->> 'email' as input from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
              where r.key = $1 and r.state <> 'waiting'`,
            [String(id)],
          )
        )[0]?.input,
      { interval: 20 },
    )
    .toBe('again19@example.com')
})

test('changes in a paused source wait until it is resumed', async () => {
  await pauses.pauseSources(app.db, ['contacts'], { by: 'the test', reason: null })
  // A tick that began before may still be picking.
  await new Promise((resolve) => setTimeout(resolve, 100))
  const ids = await insert('paused@example.com')
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(await recorded()).toBe(1)
  await pauses.resumeSources(app.db, ['contacts'])
  await expect.poll(() => enriched(ids), { interval: 20 }).toBe(1)
})

test('a run does not wait for live sync', async () => {
  const [{ id: run } = { id: 0 }] = await harness.query<{ id: number }>(
    `select id from fillrate.runs where trigger = 'follow' and state = 'running'`,
  )
  await harness.query(
    `with lookup as (
       insert into fillrate.lookups (kind, key, input, state, run_id, not_before)
       values ('email', 'later@example.com', '{}', 'pending', $1, now() + interval '1 hour') returning id
     )
     insert into fillrate.rows (source, key, lookup_id, state, run_id)
     select 'contacts', '999999', id, 'waiting', $1 from lookup`,
    [run],
  )
  const report = await harness.run({ where: 't.id = 1' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 1, waiting: 0 } })
})

test('a deleted row picked by a dead run waits no longer', async () => {
  await harness.query(
    `with dead as (
       insert into fillrate.runs (trigger, sources, options, state, owner, lease_token, leased_until, finished_at)
       values ('follow', '{contacts}', '{"follow": true}', 'interrupted', 'the test', gen_random_uuid(), now(), now())
       returning id
     )
     insert into fillrate.rows (source, key, state, run_id, input_hash)
     select 'contacts', '888888', 'waiting', id, 0 from dead`,
  )
  await expect
    .poll(
      () => harness.query(`select source from fillrate.rows where deleted_at is not null and key = '888888'`),
      {
        interval: 50,
      },
    )
    .toEqual([{ source: 'contacts' }])
})

test('rows of a dead run are picked again while a user locks one of them', async () => {
  const client = await harness.database.pool.connect()
  try {
    await client.query(`begin; set local session_replication_role = replica`)
    const { rows } = await client.query<{ id: string }>(
      `insert into crm.contacts (email, first_name)
       select 'dead' || n || '@example.com', 'Ada' from generate_series(1, 4) n returning id`,
    )
    await client.query('commit')
    const ids = rows.map((row) => Number(row.id))
    await client.query('begin')
    await client.query(`update crm.contacts set email = 'held@example.com' where id = $1`, [ids[0]])
    await harness.query(
      `with dead as (
         insert into fillrate.runs (trigger, sources, options, state, owner, lease_token, leased_until, finished_at)
         values ('follow', '{contacts}', '{"follow": true, "limit": null, "budget": null, "where": null, "route": "sync"}',
                 'interrupted', 'the test', gen_random_uuid(), now(), now()) returning id
       ), lookups as (
         insert into fillrate.lookups (kind, key, input, state, run_id)
         select 'email', 'dead' || n || '@example.com', jsonb_build_object('email', 'dead' || n || '@example.com'),
                'pending', dead.id from dead, generate_series(1, 4) n returning id, key, run_id
       )
       insert into fillrate.rows (source, key, lookup_id, state, run_id, input_hash)
       select 'contacts', c.id, l.id, 'waiting', l.run_id, 0 from lookups l join crm.contacts c on c.email = l.key`,
    )
    const pickedAgain = (): Promise<unknown> =>
      harness.query(
        `select r.key from fillrate.rows r join fillrate.runs u on u.id = r.run_id
          where u.owner <> 'the test' and r.key = any($1) and r.key <> $2`,
        [ids.map(String), String(ids[0])],
      )
    await expect.poll(pickedAgain, { interval: 50 }).toHaveLength(3)
    await client.query('commit')
    await expect.poll(() => enriched(ids), { interval: 50 }).toBe(4)
  } finally {
    client.release()
  }
})

test('a deleted row is no longer counted, and one that is inserted again goes on where it was', async () => {
  const [id = 0] = await insert('leaves@example.com')
  await expect.poll(() => enriched([id]), { interval: 20 }).toBe(1)
  const known = async (): Promise<object[]> =>
    harness.query(
      `select case when deleted_at is null then 'known' else 'deleted' end as is from fillrate.rows where key = $1`,
      [String(id)],
    )
  await harness.query('delete from crm.contacts where id = $1', [id])
  await expect.poll(known, { interval: 20 }).toEqual([{ is: 'deleted' }])
  await harness.query(
    `insert into crm.contacts (id, email, first_name) overriding system value values ($1, 'leaves@example.com', 'Ada')`,
    [id],
  )
  await expect.poll(known, { interval: 20 }).toEqual([{ is: 'known' }])
})
