import { expect, onTestFinished, test } from 'vitest'
import { scheduleName } from '../../../src/config/cron.ts'
import { FAR_HOUR, insertContacts, openFollowedDay } from '../../support/day.ts'

// What one cause does to a scheduled run and to live sync is one condition: one begin and one end on every channel. That of a
// refused key is among those of conditions-services.test.ts.

const nightly = { cron: `0 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: ['contacts'], budget: 100 }

test('a service that answers with errors until a scheduled run fails is one condition', async () => {
  const { day } = await openFollowedDay({ faults: { '500': 1 } }, { schedule: [nightly] }, 20)
  onTestFinished(() => day.close())
  await day.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state) values ($1, date_trunc('minute', now()), $2, 'waiting')`,
    [scheduleName(nightly), nightly.sources],
  )
  await day.see('service_failing')
  await expect
    .poll(() =>
      day.query(`select failed_for from fillrate.runs where state = 'failed' and trigger = 'schedule'`),
    )
    .toEqual([{ failed_for: 'service_failing' }])

  day.sandbox.configure({ faults: {} })
  await insertContacts(day, 1, 1)
  await day.over('service_failing')
  await expect
    .poll(() => day.database.count(`fillrate.lookups where state in ('found', 'not_found')`))
    .toBeGreaterThan(0)
  expect(await day.query('select kind from fillrate.conditions')).toEqual([{ kind: 'service_failing' }])
  // It lasts for about a minute, after which it is notified of.
  const isTold = day.notified.length > 0
  await expect.poll(() => day.notified).toHaveLength(isTold ? 2 : 0)
})
