import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { makeOneCall } from '../../../src/cli/check/service.ts'
import { toScope } from '../../../src/service/api-keys.ts'
import { toServiceAddress } from '../../../src/service/dispatcher.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import {
  countAnswered,
  DayOnCall,
  FAR_HOUR,
  followContacts,
  insertContacts,
  missNights,
} from '../../support/day.ts'

// A day of two daemons with a schedule and live sync: what goes wrong is made once, and what an operator sees of it is
// held to what happened. At its end, the money is what the service has counted. Other faults are in `faults/conditions-*` and in
// days of their own.

const BUDGET = 5
const LIVE_BUDGET = 200
const nightly = { cron: `0 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: ['accounts'], budget: BUDGET }
const late = { cron: `30 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: ['contacts'], budget: 60 }
const price = { currency: 'EUR', lookup: { person: 0.1, company: 0.02 } }

let day: DayOnCall
let config: ReturnType<typeof createConfig>
const createConfig = (url: string) => ({
  ...withAccounts,
  sources: { ...withAccounts.sources, contacts: { ...withAccounts.sources.contacts, follow: true } },
  schedule: [nightly, late],
  budget: 200,
  liveSync: { budget: LIVE_BUDGET },
  price,
  notify: [{ url, on: ['error', 'warning'] }],
})

beforeAll(async () => {
  day = await DayOnCall.open({ jobDelayMs: 100 })
  const { database } = day
  await createCrm(database.pool, 60, 12)
  config = createConfig(day.notifyUrl)
  await followContacts(day, config)
  // The nightly run was missed, and is caught up at once.
  await missNights(day, nightly)
  await day.start(config)
  await day.start(config)
})
afterAll(() => day.close())

test('what the database, the schedule and the configuration can do wrong is seen at once, and when it is over', async () => {
  // The other one waits for a run of a schedule that is no longer configured.
  await day.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state, lease_token, leased_until, owner)
     values ('former', now() - interval '1 hour', '{contacts}', 'running', gen_random_uuid(), now() + interval '1 hour', 'x'),
            ($1, date_trunc('minute', now()) - interval '40 minutes', '{contacts}', 'waiting', null, null, null)`,
    [scheduleName(late)],
  )
  await day.query(
    `insert into crm.contacts (email) select 'import' || n || '@example.com' from generate_series(1, 150) n`,
  )
  await day.see('late')

  const locked = await day.database.pool.connect()
  await locked.query('begin; lock table crm.contacts in access exclusive mode')
  await day.query(
    `insert into fillrate.changed_rows (changed_at, source, keys, is_import)
     values (now() - interval '10 minutes', 'contacts', '{1}', false)`,
  )
  await day.query(
    `insert into fillrate.jobs (key, job_id, state, size, lookup_ids, submitted_at, deadline_at)
     values (gen_random_uuid(), 'forgotten', 'submitted', 1, '{0}', now() - interval '1 day', now() - interval '1 minute')`,
  )
  // A daemon of the next version is started before its migration.
  const applied = await day.query('delete from fillrate.migrations returning *')
  const next = await day.start(config, { isWaiting: true })
  await day.see('late', 'jobs_overdue')
  await expect
    .poll(() => day.logged('condition_began', 'database_away'))
    .toMatchObject([{ reason: expect.stringContaining('does not fit this version') }])
  expect((await fetch(`${next.url}/readyz`)).status).toBe(503)
  // Only a delivery after a job has expired ends its condition.
  await expect.poll(() => day.query(`select from fillrate.jobs where state = 'expired'`)).toHaveLength(1)

  await locked.query('rollback')
  locked.release()
  await day.query(
    'insert into fillrate.migrations select * from jsonb_populate_recordset(null::fillrate.migrations, $1)',
    [JSON.stringify(applied)],
  )
  await day.query(`delete from fillrate.scheduled_runs where schedule = 'former'`)
  // Its bulk job is delivered, which ends the overdue one as well.
  await day.over('late', 'jobs_overdue')
  await expect.poll(() => day.logged('condition_ended', 'database_away')).toHaveLength(1)
  expect((await fetch(`${next.url}/readyz`)).status).toBe(200)
  day.daemons.splice(day.daemons.indexOf(next), 1)
  await next.stop()
})

test('a key that is rejected is seen, is over with a call of `check`, and nothing is lost', async () => {
  const { sandbox } = day
  const before = await countAnswered(day)
  const { keys } = sandbox
  sandbox.configure({ keys: ['another'] })
  await insertContacts(day, 21, 23)
  await day.see('key_refused')
  sandbox.configure({ keys: [...keys] })
  // As `fillrate check --call email=…` does: all daemons know it, and go on.
  const check = day.environment(day.database.url)
  const scope = toScope(toServiceAddress(check.baseUrl ?? ''), null, check.apiKey ?? '')
  const input = { email: 'check@example.com' }
  for await (const { name, verdict } of makeOneCall(BUILT_IN_SERVICE, check, input, scope))
    expect([name, verdict]).toEqual([name, 'ok'])
  await day.over('key_refused')
  await expect.poll(() => countAnswered(day)).toBe(before + 3)
})

test('at the end of the day the money is what the service has counted, to the lookup', async () => {
  await day.stopAll()
  const { database, sandbox } = day
  const spend = await readSpend(database.db, parseConfig(config, null))
  const { inputs } = sandbox.stats()
  expect(inputs.unanswered).toBe(0)
  // The one of `fillrate check --call` belongs to no run.
  const billed = inputs.requested_singly + inputs.requested_in_bulk - 1
  expect(spend.today).toMatchObject({ lookups: billed })
  expect(spend.last_30_days.lookups).toBe(billed)
  // Each budget was kept: the nightly run's, and that of live sync.
  const [accounts] = await day.query(
    `select sum(lookups)::int as lookups from fillrate.spend where source = 'accounts'`,
  )
  expect(accounts).toEqual({ lookups: BUDGET })
  expect(spend.budgets.find(({ kind }) => kind === 'live_sync')?.spent).toBeLessThanOrEqual(LIVE_BUDGET)
  const people = billed - BUDGET
  expect(spend.today.cost).toEqual({
    currency: 'EUR',
    amount: Math.round((people * 0.1 + BUDGET * 0.02) * 1e6) / 1e6,
  })
})

test('a daemon that is stopped while Postgres is away ends, although its live sync run stays open', async () => {
  const daemon = await day.start(config)
  const before = await countAnswered(day)
  await insertContacts(day, 51, 51)
  await expect.poll(() => countAnswered(day)).toBe(before + 1)
  const isOpen = `select from fillrate.runs where trigger = 'follow' and state = 'running'`
  expect(await day.query(isOpen)).toHaveLength(1)
  day.daemons.splice(day.daemons.indexOf(daemon), 1)
  await daemon.toDatabase.pull()
  await daemon.stop()
  expect(await day.query(isOpen)).toHaveLength(1)
})
