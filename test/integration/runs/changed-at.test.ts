import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { SourceProblems } from '../../../src/sources/problems.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

const harness = useHarness({
  config: crmConfig,
  prepare: async ({ pool }) => {
    await createCrm(pool, 0)
    await pool.query(`
        alter table crm.contacts add column changed_at timestamptz default now(),
          add column local_at timestamp not null default (now() at time zone 'UTC'),
          add column changed_on date not null default (now() at time zone 'UTC')::date,
          add column seconds bigint not null default extract(epoch from now())`)
    await pool.query(`drop role if exists ${ROLE}`).catch(() => {})
    await pool.query(`
        create role ${ROLE} login password 'least';
        grant usage on schema fillrate, crm to ${ROLE};
        grant select, insert, update, delete on all tables in schema fillrate, crm to ${ROLE}`)
  },
})
afterAll(() => harness.query(`drop owned by ${ROLE}; drop role ${ROLE}`))
beforeEach(() =>
  harness.query('truncate crm.contacts, fillrate.source_state, fillrate.rows, fillrate.lookups cascade'),
)

const ROLE = 'fillrate_changed_at'

/** The database for a role that does not see what other users' sessions do. */
function asLeast(): string {
  const url = new URL(harness.database.url)
  url.username = ROLE
  url.password = 'least'
  return url.href
}

/**
 * Runs once over contacts with `changedAt`.
 * @returns the addresses picked so far
 */
async function pass(changedAt = 't.changed_at', databaseUrl = harness.database.url): Promise<string[]> {
  await harness.run(
    { route: 'sync' },
    {
      environment: { databaseUrl },
      config: {
        ...crmConfig,
        sources: { contacts: { ...crmConfig.sources.contacts, changedAt } },
      },
    },
  )
  const found = await harness.query<{ email: string }>(
    'select email from crm.contacts c join fillrate.rows r on r.key = c.id::text order by email',
  )
  return found.map((row) => row.email)
}
const insert = (email: string, changedAt = 'now()'): Promise<unknown> =>
  harness.query(`insert into crm.contacts (email, changed_at) values ('${email}', ${changedAt})`)

describe('a new row is found by the next pass', () => {
  test('although the clock of this process was an hour ahead in the previous pass', async () => {
    await insert('first@x.example')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 })
    await pass()
    vi.useRealTimers()
    await insert('second@x.example')
    expect(await pass()).toEqual(['first@x.example', 'second@x.example'])
  })

  test.each([
    ['UTC in a timestamp without time zone', 't.local_at', 'Europe/Oslo'],
    ['UTC in a timestamp, west of Greenwich', 't.local_at', 'America/Los_Angeles'],
    ['a date', 't.changed_on', 'Pacific/Auckland'],
  ])('if changedAt holds %s', async (_, changedAt, timezone) => {
    await harness.query(
      `do $$ begin execute format('alter database %I set timezone = %L', current_database(), '${timezone}'); end $$`,
    )
    await insert('first@x.example')
    await pass(changedAt)
    await insert('second@x.example')
    expect(await pass(changedAt)).toEqual(['first@x.example', 'second@x.example'])
  })

  test('although it was committed long after its own changedAt', async () => {
    await insert('first@x.example')
    const late = await harness.database.pool.connect()
    await late.query('begin')
    await late.query(
      `insert into crm.contacts (email, changed_at) values ('late@x.example', now() - interval '1 day')`,
    )
    await pass()
    await late.query('commit')
    late.release()
    // All of this was a day ago, and the margin of ten minutes has passed: only the bound itself is left.
    await harness.query(`
      update fillrate.source_state set changed_until = changed_until - interval '1 day' + interval '10 minutes',
             started_at = started_at - interval '1 day', full_pass_at = full_pass_at - interval '1 day'`)
    expect(await pass()).toEqual(['first@x.example', 'late@x.example'])
  })

  test.each([
    ['commits', ['commit']],
    ['is prepared before', ["prepare transaction 'late'", "commit prepared 'late'"]],
  ])(
    'to a role that does not see when it began, although its transaction %s after two passes',
    async (_, ends) => {
      await insert('first@x.example')
      await pass('t.changed_at', asLeast())
      // The pass was a day ago, and the transaction began a minute after it.
      await harness.query(`
      update fillrate.source_state set changed_until = changed_until - interval '1 day',
             started_at = started_at - interval '1 day', full_pass_at = full_pass_at - interval '1 day'`)
      const late = await harness.database.pool.connect()
      await late.query('begin; select')
      await pass('t.changed_at', asLeast())
      await late.query(
        `insert into crm.contacts (email, changed_at) values ('late@x.example', now() - interval '1 day' + interval '1 minute')`,
      )
      const found: string[][] = []
      for (const end of ends) {
        await late.query(end)
        found.push(await pass('t.changed_at', asLeast()))
      }
      late.release()
      expect(found.at(-1)).toEqual(['first@x.example', 'late@x.example'])
      // It was no full pass that found it.
      expect(
        await harness.query(
          'select now() - full_pass_at > interval $$23 hours$$ as old from fillrate.source_state',
        ),
      ).toEqual([{ old: true }])
    },
  )

  test('although a pass is recorded for a time in the future', async () => {
    await insert('first@x.example')
    await pass()
    await harness.query(`update fillrate.source_state set changed_until = now() + interval '400 days'`)
    await insert('second@x.example')
    expect(await pass()).toEqual(['first@x.example', 'second@x.example'])
  })
})

test('a row whose changedAt did not change is found by a full pass once a week', async () => {
  await insert('first@x.example')
  await pass()
  await insert('old@x.example', `now() - interval '3 years'`)
  expect(await pass()).toEqual(['first@x.example'])
  await harness.query(`update fillrate.source_state set full_pass_at = full_pass_at - interval '7 days'`)
  expect(await pass()).toEqual(['first@x.example', 'old@x.example'])
})

test('rows that are due again are looked for once an hour, and at once after a retry', async () => {
  const contacts = { ...crmConfig.sources.contacts, changedAt: 't.changed_at' }
  const config = { ...crmConfig, sources: { contacts } }
  const countPicked = async () => (await harness.run({ route: 'sync' }, { config })).rows.picked
  for (const n of [1, 2]) await insert(`person${n}@example.com`, `now() - interval '1 day'`)
  expect(await countPicked()).toBe(2)
  await harness.query(`
    update crm.contacts set title = null;
    update fillrate.rows set due_at = now() - interval '1 minute', state = 'failed', failure = 'failed'`)
  expect(await countPicked()).toBe(0)
  await harness.query(`update fillrate.source_state set due_after = due_after - interval '1 hour'`)
  expect(await countPicked()).toBe(2)

  await harness.query(`
    update crm.contacts set title = null;
    update fillrate.rows set state = 'failed', failure = 'failed'`)
  expect(await countPicked()).toBe(0)
  const app = await harness.open({ config })
  const signal = new AbortController().signal
  await app.retry({ states: ['failed'], reason: null, sources: [], dryRun: false, signal })
  await app.close()
  expect(await countPicked()).toBe(2)
  expect(await countPicked()).toBe(0)
})

test('a changedAt that is no time is rejected, with advice', async () => {
  const problems = await pass('t.seconds').catch((error: unknown) => error)
  expect(problems).toBeInstanceOf(SourceProblems)
  expect(problems).toMatchObject({
    problems: [
      {
        place: 'changedAt',
        found: 't.seconds, which is of type bigint',
        expected: 'a time: timestamptz, timestamp or date',
      },
    ],
  })
})

test('a plan reads all rows, and finds those that the run picks: changed, due and abandoned ones', async () => {
  await harness.query(`
    insert into crm.contacts (email, changed_at)
    select 'p' || n || '@x.example', now() - interval '1 day' from generate_series(1, 30) n`)
  await pass()
  await harness.query(`
    update crm.contacts set title = null;
    update crm.contacts set email = 'new-' || email, changed_at = now() where id <= (select min(id) + 4 from crm.contacts);
    update fillrate.rows r set due_at = now() - interval '1 minute' from crm.contacts c
     where r.key = c.id::text and c.email in ('new-p1@x.example', 'p11@x.example', 'p12@x.example') and r.state <> 'waiting';
    update fillrate.rows r set state = 'waiting', settled_at = null, due_at = null, run_id = null from crm.contacts c
     where r.key = c.id::text and c.email in ('new-p2@x.example', 'p21@x.example');
    update fillrate.source_state set due_after = now()`)
  const app = await harness.open({
    config: {
      ...crmConfig,
      sources: { contacts: { ...crmConfig.sources.contacts, changedAt: 't.changed_at' } },
    },
  })
  const plan = await app.plan(runRequest({ route: 'sync' }))
  const limited = await app.plan(runRequest({ route: 'sync', limit: 4 }))
  const report = await app.run(runRequest({ route: 'sync' }))
  await app.close()
  expect(plan.sources).toMatchObject([{ table: 30, stopped_at: null, rows: 30, picked: 8, fresh: 22 }])
  expect(limited.sources).toMatchObject([{ stopped_at: 'limit', picked: 4 }])
  expect(report).toMatchObject({
    rows: { picked: 8 },
    lookups: { requested: plan.lookups.requested, distinct: plan.lookups.distinct },
  })
  expect(plan.lookups).toMatchObject({ requested: 5, distinct: 8 })
})
