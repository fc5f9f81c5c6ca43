import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { insertRequest } from '../../../src/store/scheduled-runs.ts'
import { startDaemon, type Stop } from '../../support/app-processes.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { missNights } from '../../support/day.ts'
import { useHarness } from '../../support/harness.ts'

// A scheduled run whose process is killed, and which the next process restarts.

const BUDGET = 100
const entry = { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'], budget: BUDGET }
const config = { ...crmConfig, schedule: [entry] }

let cli: CommandLine
let stop: Stop | undefined
const harness = useHarness({
  config,
  sandbox: { latencyAfterMs: [50, 150], limit: 20, windowMs: 1_000 },
  prepare: ({ pool }) => createCrm(pool, 500),
})
beforeAll(async () => {
  cli = await createCommandLine(harness.database.url, harness.sandbox, config)
  // The daemon knew the schedule before, so that it catches up the last night at once.
  await missNights(harness, entry)
})
afterAll(async () => {
  await stop?.()
  await cli.remove()
})

/** What was billed, or may have been by calls that a kill has cut off; the service knows how much of it was. */
async function expectSpent(budget: number, before = 0): Promise<void> {
  const { requested_singly: requested } = harness.sandbox.stats().inputs
  const [row] = await harness.query<{ spent: number }>(
    'select sum(credits + credits_in_doubt)::int as spent from fillrate.spend',
  )
  expect((row?.spent ?? 0) - before).toBe(budget)
  expect(requested).toBeLessThanOrEqual(row?.spent ?? 0)
}
const distinct = (): number => harness.sandbox.stats({ inputs: true }).inputs.distinct

/** Expires the leases of the dead process, and starts another one. */
async function continueElsewhere(): Promise<void> {
  for (const table of ['runs', 'scheduled_runs', 'lookups', 'leases'])
    await harness.query(
      `update fillrate.${table} set leased_until = now() - interval '1 s' where leased_until is not null`,
    )
  stop = startDaemon(await harness.open({ environment: { webhookSecrets: [] } }))
}

test('a scheduled run restarted after a crash keeps its remaining budget', async () => {
  const first = cli.startWith({ FILLRATE_WEBHOOK_SECRET: undefined }, 'start')
  await expect.poll(distinct, { interval: 50 }).toBeGreaterThan(20)
  first.child.kill('SIGKILL')
  await first.ended
  await continueElsewhere()
  await expect
    .poll(async () => {
      const rows = await harness.query<{ attempts: number; reason: string }>(
        `select attempts, reason from fillrate.scheduled_runs where at > now() - interval '2 days' and state = 'done'`,
      )
      return rows
    })
    .toEqual([{ attempts: 2, reason: expect.stringContaining('budget_reached') }])
  // Everything that the budget allows, including rows that the dead process had claimed.
  await expectSpent(BUDGET)
})

test('a run requested on the dashboard outlives its process in the same way', async () => {
  await stop?.()
  const before = distinct()
  const id = randomUUID()
  const work = { sources: ['contacts'], limit: null, budget: 60, where: null } as const
  await insertRequest(harness.database.db, { id, work: { ...work, route: 'sync' }, by: 'anna' }, 0)
  const first = cli.startWith({ FILLRATE_WEBHOOK_SECRET: undefined }, 'start')
  await expect.poll(distinct, { interval: 50 }).toBeGreaterThan(before + 15)
  first.child.kill('SIGKILL')
  await first.ended
  await continueElsewhere()
  const stored = `select state, reason from fillrate.scheduled_runs where schedule = 'request ' || $1`
  await expect
    .poll(() => harness.query(stored, [id]))
    .toEqual([{ state: 'done', reason: expect.stringContaining('budget of 60') as string }])
  await expectSpent(60, BUDGET)
})
