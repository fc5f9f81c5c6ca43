import { expect, onTestFinished, test, vi } from 'vitest'
import { startDaemon } from '../../support/app-processes.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { missNights } from '../../support/day.ts'
import { startHarness } from '../../support/harness.ts'

const entries = [
  { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'] },
  { cron: '0 3 * * *', timezone: 'Europe/Oslo', sources: ['accounts'] },
]

test('a missed night is caught up, by the clock of Postgres and not of the process', async () => {
  const harness = await startHarness({
    config: { ...withAccounts, schedule: entries },
    prepare: ({ pool }) => createCrm(pool, 120, 10),
  })
  onTestFinished(() => harness.close())
  for (const entry of entries) await missNights(harness, entry)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 400 * 86_400_000 })
  onTestFinished(() => void vi.useRealTimers())
  const stop = startDaemon(await harness.open({ environment: { webhookSecrets: [] } }))
  onTestFinished(stop)
  // Both runs share the workers.
  await expect
    .poll(() =>
      harness.query(
        `select t.sources, r.trigger, r.state from fillrate.scheduled_runs t join fillrate.runs r on r.id = t.run_id
          where t.at between now() - interval '26 hours' and now() and t.state = 'done' order by t.sources`,
      ),
    )
    .toEqual(
      ['accounts', 'contacts'].map((source) => ({
        sources: [source],
        trigger: 'schedule',
        state: 'completed',
      })),
    )
  expect(await harness.query('select 1 from fillrate.scheduled_runs where at > now()')).toEqual([])
  expect(await harness.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
})
