import { afterEach, beforeEach, expect, test } from 'vitest'
import { setTriggers } from '../../../src/actions/triggers.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { DayOnCall, insertContacts } from '../../support/day.ts'

// What one cause does to a scheduled run and to live sync is one trouble: one begin and one end on every channel.

/** Far from now, so that it fires only when a test asks for it. */
const hour = (new Date().getUTCHours() + 12) % 24
const nightly = { cron: `0 ${hour} * * *`, timezone: 'UTC', sources: ['contacts'], budget: 100 }

let day: DayOnCall
let config: ReturnType<typeof createConfig>
const createConfig = (url: string) => ({
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
  schedule: [nightly],
  budget: 100,
  notify: [{ url, on: ['error', 'warning'] }],
})

beforeEach(async () => {
  day = await DayOnCall.open({})
  await createCrm(day.database.pool, 20)
  config = createConfig(day.notifyUrl)
  const { contacts } = parseConfig(config, null).sources
  if (contacts === undefined) throw new Error('there is no such source')
  await setTriggers(day.database.db, await openSource(day.database.db, contacts), 'install')
  await day.start(config)
  await day.start(config)
})
afterEach(() => day.close())

const startNightly = () =>
  day.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state) values ($1, date_trunc('minute', now()), $2, 'waiting')`,
    [scheduleName(nightly), nightly.sources],
  )
const listHistory = async () =>
  (await day.query<{ code: string }>('select code from fillrate.troubles order by id')).map(
    ({ code }) => code,
  )
const listFailedRuns = () =>
  day.query(`select failed_for from fillrate.runs where state = 'failed' and trigger = 'schedule'`)
const answered = async () => {
  const [row] = await day.query<{ count: number }>(
    `select count(*)::int as count from fillrate.lookups where state in ('found', 'not_found')`,
  )
  return row?.count
}

test('a key that is refused in a scheduled run, and replaced by a restart, is one trouble', async () => {
  day.sandbox.configure({ keys: ['next-key'] })
  let at = Date.now()
  await startNightly()
  await insertContacts(day, 1, 2)
  await day.see(at, 'key_refused')
  await expect.poll(listFailedRuns).toEqual([{ failed_for: 'key_refused' }])

  await day.stopAll()
  at = Date.now()
  await day.start(config)
  await insertContacts(day, 3, 3)
  await day.over(at, 'key_refused')
  // What the run had picked waits for the next one.
  await expect.poll(answered).toBe(3)
  expect(await listHistory()).toEqual(['key_refused'])
  expect(day.notified).toEqual(['trouble_began key_refused', 'trouble_ended key_refused'])
})

test('a service that answers with errors until a scheduled run fails is one trouble', async () => {
  day.sandbox.configure({ faults: { '500': 1 } })
  let at = Date.now()
  await startNightly()
  await day.see(at, 'circuit_open')
  await expect.poll(listFailedRuns).toEqual([{ failed_for: 'circuit_open' }])

  day.sandbox.configure({ faults: {} })
  at = Date.now()
  await insertContacts(day, 1, 1)
  await day.over(at, 'circuit_open')
  await expect.poll(answered).toBeGreaterThan(0)
  expect(await listHistory()).toEqual(['circuit_open'])
  await expect.poll(() => day.query(`select from fillrate.notifications where state = 'pending'`)).toEqual([])
  expect([[], ['trouble_began circuit_open', 'trouble_ended circuit_open']]).toContainEqual(day.notified)
})
