import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { FillrateNotification } from '../../../src/domain/notification.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'
import { startHarness, type Harness } from '../../support/harness.ts'
import { type LoopbackService, startLoopback } from '../../support/loopback.ts'

// A missed night in a daemon: its two runs share the workers, and one of them leaves out a source that is broken.

const entries = [
  { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'] },
  { cron: '0 3 * * *', timezone: 'Europe/Oslo', sources: ['accounts'] },
]

let harness: Harness
let target: LoopbackService
const stop = new AbortController()
let started: Promise<void> = Promise.resolve()

beforeAll(async () => {
  target = await startLoopback((_, response) => response.end())
  harness = await startHarness({
    config: { ...withAccounts, schedule: entries, notify: [{ url: target.url, on: ['error', 'completed'] }] },
    prepare: ({ pool }) => createCrm(pool, 120, 10),
  })
  for (const entry of entries)
    await harness.query(
      `insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at)
       values ($1, now() - interval '3 days', $2, 'done', now())`,
      [scheduleName(entry), entry.sources],
    )
  const app = await harness.open({ environment: { webhookSecrets: [] } })
  // A column is dropped after the mapping was checked.
  await harness.query('alter table crm.accounts drop column industry')
  started = app.start({
    signal: stop.signal,
    receiver: { publicUrl: 'http://127.0.0.1:1' },
    deliveries: new WakeSignal(),
  })
})
afterAll(async () => {
  stop.abort()
  await started
  await harness.close()
  await target.close()
})

test('a missed night is caught up: one run completes, the other leaves its broken source out, and people hear of it', async () => {
  await expect
    .poll(() =>
      harness.query(
        `select 1 from fillrate.scheduled_runs where at > now() - interval '2 days' and state = 'done'`,
      ),
    )
    .toHaveLength(2)
  const ticks = await harness.query<{
    sources: string[]
    reason: string | null
    trigger: string
    state: string
  }>(
    `select t.sources, t.reason, r.trigger, r.state from fillrate.scheduled_runs t join fillrate.runs r on r.id = t.run_id
      order by t.sources`,
  )
  expect(ticks).toEqual([
    {
      sources: ['accounts'],
      reason: expect.stringContaining('left out'),
      trigger: 'schedule',
      state: 'completed',
    },
    { sources: ['contacts'], reason: null, trigger: 'schedule', state: 'completed' },
  ])
  expect(
    await harness.query(
      `select totals #>> '{left_out,0,source}' as source from fillrate.runs where totals ? 'left_out'`,
    ),
  ).toEqual([{ source: 'accounts' }])
  expect(await harness.count(`fillrate.rows where source = 'contacts' and state = 'waiting'`)).toBe(0)
  await expect
    .poll(() => target.received.map(({ body }) => (JSON.parse(body) as FillrateNotification).event))
    .toContain('run_completed')
})

test('the schedule uses the clock of Postgres, not of the process', async () => {
  stop.abort()
  await started
  await harness.query('alter table crm.accounts add column industry text')
  await harness.query(`update fillrate.scheduled_runs set at = at - interval '3 days'`)
  const again = new AbortController()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 400 * 86_400_000 })
  try {
    const app = await harness.open({ environment: { webhookSecrets: [] } })
    const options = { receiver: { publicUrl: 'http://127.0.0.1:1' }, deliveries: new WakeSignal() }
    started = app.start({ ...options, signal: again.signal })
    await expect
      .poll(() => harness.query(`select 1 from fillrate.scheduled_runs where at > now() - interval '2 days'`))
      .toHaveLength(2)
    expect(await harness.query('select 1 from fillrate.scheduled_runs where at > now()')).toEqual([])
    expect(
      await harness.query(`select 1 from fillrate.scheduled_runs where at > now() - interval '26 hours'`),
    ).toHaveLength(2)
  } finally {
    vi.useRealTimers()
    again.abort()
    await started
  }
})
