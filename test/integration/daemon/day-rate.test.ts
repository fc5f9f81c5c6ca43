import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { countAnswered, DayOnCall, followContacts, insertContacts } from '../../support/day.ts'

// A day of two daemons whose own calls use up the limit of an hour.

let day: DayOnCall
let config: ReturnType<typeof createConfig>
const createConfig = (url: string) => ({
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
  // As many calls at once as a few rows can keep waiting.
  service: { concurrency: 4 },
  budget: 200,
  notify: [{ url, on: ['error', 'warning'] }],
})

beforeAll(async () => {
  day = await DayOnCall.open({})
  const { database } = day
  await createCrm(database.pool, 0)
  config = createConfig(day.notifyUrl)
  await followContacts(day, config)
  for (let n = 0; n < 2; n++) await day.start(config)
})
afterAll(() => day.close())

let inserted = 0

test('a limit that is used up is seen, and nothing is lost', async () => {
  const { sandbox } = day
  const insert = (rows: number): Promise<unknown> => insertContacts(day, inserted + 1, (inserted += rows))
  const expectAnswered = async (): Promise<void> => {
    await expect.poll(() => countAnswered(day)).toBe(inserted)
  }
  sandbox.configure({ limit: 20, windowMs: 3_600_000 })
  await insert(30)
  await day.see('throttled')
  // The service has raised the limit.
  sandbox.configure({ limit: null })
  await day.restartLater(config)
  await expectAnswered()
  await day.over('throttled')
})

test('the money is what the service has counted, to the lookup', async () => {
  await day.stopAll()
  const spend = await readSpend(day.database.db, parseConfig(config, null))
  const { inputs } = day.sandbox.stats()
  expect(inputs.unanswered).toBe(0)
  expect(inputs.requested_singly + inputs.requested_in_bulk).toBe(inserted)
  expect(spend.today).toMatchObject({ lookups: inserted, in_doubt: 0 })
})
