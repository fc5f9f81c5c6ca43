import { afterEach, beforeEach, expect, test } from 'vitest'
import { scheduleName } from '../../../src/config/cron.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { DayOnCall, FAR_HOUR, followContacts, insertContacts } from '../../support/day.ts'

// What one cause does to a scheduled run and to live sync is one trouble: one begin and one end on every channel.

const nightly = { cron: `0 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: ['contacts'], budget: 100 }

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
  await followContacts(day, config)
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
const answered = () => day.database.count(`fillrate.lookups where state in ('found', 'not_found')`)

test('a key that is refused in a scheduled run, and replaced by a restart, is one trouble', async () => {
  day.sandbox.configure({ keys: ['next-key'] })
  await startNightly()
  await insertContacts(day, 1, 2)
  await day.see('key_refused')
  await expect.poll(listFailedRuns).toEqual([{ failed_for: 'key_refused' }])

  await day.stopAll()
  await day.start(config)
  await insertContacts(day, 3, 3)
  await day.over('key_refused')
  // What the run had picked waits for the next one.
  await expect.poll(answered).toBe(3)
  expect(await listHistory()).toEqual(['key_refused'])
  expect(day.notified).toEqual(['trouble_began key_refused', 'trouble_ended key_refused'])
})

test('a service that answers with errors until a scheduled run fails is one trouble', async () => {
  day.sandbox.configure({ faults: { '500': 1 } })
  await startNightly()
  await day.see('circuit_open')
  await expect.poll(listFailedRuns).toEqual([{ failed_for: 'circuit_open' }])

  day.sandbox.configure({ faults: {} })
  await insertContacts(day, 1, 1)
  await day.over('circuit_open')
  await expect.poll(answered).toBeGreaterThan(0)
  expect(await listHistory()).toEqual(['circuit_open'])
  await expect.poll(() => day.query(`select from fillrate.notifications where state = 'pending'`)).toEqual([])
  expect([[], ['trouble_began circuit_open', 'trouble_ended circuit_open']]).toContainEqual(day.notified)
})
