import { afterAll, expect, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { countAnswered, insertContacts, openFollowedDay } from '../../support/day.ts'

// A day of two daemons whose own calls use up the limit of an hour.

// As many calls at once as a few rows can keep waiting.
const { day, config } = await openFollowedDay({}, { service: { concurrency: 4 } })
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
