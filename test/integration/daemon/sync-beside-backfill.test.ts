import { afterAll, beforeAll, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import { startDaemon, type Stop } from '../../support/app-processes.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

const BACKFILL = 200
const config = {
  ...crmConfig,
  service: { concurrency: 4 },
  sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
}

let daemon: App
let stop: Stop | undefined

const harness = useHarness({
  config,
  sandbox: { notFoundShare: 0, missingShare: 0, latencyAfterMs: 30 },
  prepare: ({ pool }) => createCrm(pool, BACKFILL),
})
beforeAll(async () => {
  daemon = await harness.open({ environment: { webhookSecrets: [] } })
})
afterAll(() => stop?.())

test('a backfill does not delay a sync, which takes over its rows', async () => {
  await daemon.follow('install', 'contacts')
  stop = startDaemon(daemon)
  const other = await harness.open({ environment: { webhookSecrets: [] } })
  const backfill = other.run(runRequest({ trigger: 'backfill', route: 'sync' }))
  await expect.poll(() => harness.count('fillrate.rows'), { interval: 10 }).toBe(BACKFILL)

  // The last row of the backfill gets another address, and two rows are new.
  await harness.query(`update crm.contacts set email = 'changed@example.com' where id = ${BACKFILL - 1}`)
  await harness.query(`insert into crm.contacts (email) values ('new1@example.com'), ('new2@example.com')`)
  const open = `crm.contacts where phone is null and (id > ${BACKFILL} or id = ${BACKFILL - 1})`
  await expect.poll(() => harness.count(open), { interval: 20 }).toBe(0)
  expect(await harness.count(`fillrate.rows where state = 'waiting'`)).toBeGreaterThan(BACKFILL / 3)

  const report = await backfill
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  expect(report.rows.picked).toBe(BACKFILL - 1)
  const bySync = await harness.query<{ key: string }>(
    `select r.key from fillrate.rows r join fillrate.runs u on u.id = r.run_id where u.trigger = 'follow' order by r.key::int`,
  )
  expect(bySync.map((row) => Number(row.key))).toEqual([BACKFILL - 1, BACKFILL + 1, BACKFILL + 2])
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})
