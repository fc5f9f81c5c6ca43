import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { enforceRetention } from '../../../src/pipeline/retention.ts'
import { deleteRecords } from '../../../src/store/retention.ts'
import { whileOpen } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'

const NIGHTS = 30
const ROWS = 200
const DAY = 86_400_000
const keep = { recordsMs: 7 * DAY, deliveriesMs: 3 * DAY, changesMs: 5 * DAY }
const TABLES = ['lookups', 'rows', 'jobs', 'deliveries', 'changes', 'runs', 'scheduled_runs'] as const

const database = useTestDatabase()

/** A night in which every row gets a new lookup, and one entry of each kind never finishes. */
async function night(n: number): Promise<void> {
  await database.query(`
    with run as (
      insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at)
      values ('schedule', '{contacts}', 'completed', 'x', gen_random_uuid(), now(), now()) returning id
    ), lookup as (
      insert into fillrate.lookups (kind, key, input, state, run_id, record, confidence, requested_at, resolved_at, refresh_at)
      select 'email', 'night' || ${n} || '-' || k, '{}', 'found', run.id, jsonb_build_object('title', repeat('x', 200)), 1,
             now(), now(), now() from run, generate_series(1, ${ROWS}) k
      returning id, key, run_id
    ), change as (
      insert into fillrate.changes (run_id, source, key, lookup_id, before, after)
      select run_id, 'contacts', split_part(key, '-', 2), id, '{}', jsonb_build_object('title', repeat('x', 200)) from lookup
    ), rows as (
      insert into fillrate.rows (source, key, lookup_id, state, run_id, settled_at)
      select 'contacts', split_part(key, '-', 2), id, 'enriched', run_id, now() from lookup
      on conflict (source, key) do update set lookup_id = excluded.lookup_id, run_id = excluded.run_id
    ), job as (
      insert into fillrate.jobs (key, state, size, run_id, lookup_ids, deadline_at, finished_at)
      select gen_random_uuid(), 'completed', 1, run.id, '{1}', now(), now() from run, generate_series(1, 6)
    ), delivery as (
      insert into fillrate.deliveries (event_id, state, body, settled_at)
      select 'night' || ${n} || '-' || k, 'settled', repeat('x', 2000), now() from generate_series(1, 6) k
    )
    insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at) select 'nightly', now(), '{contacts}', 'done', now()`)
}

/** Makes everything a day older. */
async function dayPasses(): Promise<void> {
  const columns = {
    runs: ['started_at', 'finished_at'],
    lookups: ['resolved_at', 'refresh_at', 'requested_at'],
    jobs: ['created_at', 'finished_at'],
    deliveries: ['received_at'],
    changes: ['written_at'],
    scheduled_runs: ['at'],
  }
  for (const [table, names] of Object.entries(columns))
    await database.query(
      `update fillrate.${table} set ${names.map((name) => `${name} = ${name} - interval '1 day'`).join(', ')}`,
    )
}

async function counts(): Promise<Record<string, number>> {
  const [row = {}] = await database.query<Record<string, number>>(
    `select ${TABLES.map((table) => `(select count(*)::int from fillrate.${table}) as ${table}`).join(', ')}`,
  )
  return row
}

async function bytes(): Promise<number> {
  await database.query(`vacuum ${TABLES.map((table) => `fillrate.${table}`).join(', ')}`)
  const [row] = await database.query<{ bytes: string }>(
    `select sum(pg_total_relation_size('fillrate.' || t))::text as bytes from unnest($1::text[]) t`,
    [TABLES],
  )
  return Number(row?.bytes)
}

test('a month of nights keeps no more rows than a week', async () => {
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state) values ('email', 'waits', '{}', 'pending')`,
  )
  await database.query(
    `insert into fillrate.rows (source, key, lookup_id, state) select 'contacts', 'waits', id, 'waiting' from fillrate.lookups`,
  )
  const sizes: number[] = []
  const lengths: Record<string, number>[] = []
  for (let n = 1; n <= NIGHTS; n++) {
    await night(n)
    const sweep = { after: 0 }
    for (let more = true; more;) {
      more = (await enforceRetention({ db: database.db }, keep, sweep)).more
    }
    sizes.push(await bytes())
    lengths.push(await counts())
    await dayPasses()
  }
  const last = lengths.at(-1)
  expect(last).toEqual(lengths[15])
  // One entry per night within the retention period. What a change may name stays as long as the change,
  // without its record.
  expect(last).toMatchObject({
    lookups: (7 + 5) * ROWS + 1,
    changes: 5 * ROWS,
    deliveries: 18,
    jobs: 18,
    rows: ROWS + 1,
  })
  expect((sizes.at(-1) ?? 0) / (sizes[15] ?? 0)).toBeLessThan(1.2)
  const [waiting] = await database.query<{ lookup: string | null }>(
    `select lookup_id from fillrate.rows where key = 'waits'`,
  )
  expect(waiting?.lookup).not.toBeNull()
})

test('retention can be unlimited', async () => {
  const before = await counts()
  const did = await enforceRetention(
    { db: database.db },
    { ...keep, recordsMs: null, changesMs: null },
    { after: 0 },
  )
  expect(did.deleted).toMatchObject({ records: 0, changes: 0 })
  expect(await counts()).toMatchObject({ lookups: before['lookups'], changes: before['changes'] })
})

test('a backlog is deleted in small batches, and unfinished entries stay', async () => {
  await database.query('truncate fillrate.deliveries')
  await database.query(
    `insert into fillrate.deliveries (event_id, state, body, received_at)
     select k::text, case when k = 1 then 'received' else 'settled' end, '', now() - interval '1 year'
       from generate_series(1, 1100) k`,
  )
  const dropped: number[] = []
  const sweep = { after: 0 }
  for (let more = true; more;) {
    const did = await enforceRetention({ db: database.db }, keep, sweep)
    dropped.push(did.deleted.deliveries)
    more = did.more
  }
  expect(dropped.filter((count) => count > 0)).toEqual([500, 500, 99])
  expect(await counts()).toMatchObject({ deliveries: 1 })
})

test('results that nothing could read yet stay, and not those of another service for its job of this name', async () => {
  await database.query(`
    insert into fillrate.services (id, host, name) values (0, 'a', 'a'), (1, 'b', 'b');
    insert into fillrate.jobs (key, job_id, service_id, state, size, lookup_ids, deadline_at, submitted_at, finished_at)
    values (gen_random_uuid(), 'paid', 0, 'unread', 1, '{1}', now(), now(), now());
    insert into fillrate.deliveries (event_id, service_id, job_id, state, reason, body, received_at)
    select 'unread', id, 'paid', 'quarantined', '', '', now() - interval '1 year' from fillrate.services`)
  const { deleted } = await enforceRetention({ db: database.db }, keep, { after: 0 })
  expect(deleted).toMatchObject({ deliveries: 1 })
})

test('a record that is stored while the sweep runs is no expired one', async () => {
  await database.query(`
    insert into fillrate.lookups (kind, key, input, state, requested_at, resolved_at, refresh_at)
    values ('email', 'late', '{}', 'not_found', now(), now() - interval '1 year', now() + interval '1 day');
    create schema slow;
    create function slow.now() returns timestamptz volatile language sql as
      'select pg_catalog.now() from pg_advisory_xact_lock_shared(20)'`)
  const { swept } = await whileOpen(database, 'select pg_advisory_xact_lock(20)', async () => {
    // It has its snapshot, and waits where it looks what has expired.
    const sweeping = database.db.transaction().execute(async (tx) => {
      await sql`set local search_path = slow, pg_catalog, public`.execute(tx)
      await deleteRecords(tx, keep, 0, 500)
    })
    await database.untilBlocked()
    await database.query(`
      update fillrate.lookups set state = 'found', record = '{}', resolved_at = now() where key = 'late'`)
    return { swept: sweeping }
  })
  await swept
  expect(await database.scalar(`select state from fillrate.lookups where key = 'late'`)).toBe('found')
})
