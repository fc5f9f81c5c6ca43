import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import { type Sandbox, startSandbox } from '../../../src/sandbox/server.ts'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'
import { runRequest } from '../../support/environment.ts'

// Two services on one database, each with a run of its own, as the dashboard, the status, the metrics and the library show them.

const config = { ...crmConfig, price: { currency: 'EUR', lookup: 0.02 } }
let other: Sandbox
let at: string
let stop: Stop

const harness = useHarness({
  config,
  sandbox: { seed: 7, notFoundShare: 0.5 },
  prepare: ({ pool }) => createCrm(pool, 60),
})
beforeAll(async () => {
  other = await startSandbox({ seed: 11, notFoundShare: 0.2 })
  ;({ at, stop } = await serveApp(await harness.open()))
})
afterAll(async () => {
  await stop()
  await other.close()
})

const read = async (path: string): Promise<string> => (await fetch(at + path)).text()
const readSpend = async () => (JSON.parse(await read('/api/status')) as StatusReport).spend

test('with one service, no output names it', async () => {
  await harness.run({ route: 'sync' })
  expect((await readSpend()).services).toBeUndefined()
  // Only what the metrics are, and no series.
  expect(await read('/metrics')).not.toMatch(/^fillrate_service_/m)
})

test('with two services each is shown beside the other, with its own counts', async () => {
  const second = await harness.open({
    environment: { baseUrl: other.url, apiKey: other.keys[0] ?? '' },
    config: { ...config, price: { currency: 'EUR', lookup: 0.1 } },
  })
  await second.run(runRequest({ route: 'sync' }))

  const sandboxes = [harness.sandbox, other]
  const hosts = sandboxes.map(({ url }) => url.slice('http://'.length))
  // What is read for all readers is a second old, or more.
  const spendHosts = async () => (await readSpend()).services?.map(({ host }) => host)
  await expect.poll(spendHosts, POLLED).toEqual(hosts)
  await expect
    .poll(() => read('/metrics'), POLLED)
    .toContain(`fillrate_lookups_spent_today{service="${hosts[1]}"`)
  const [ofDay, metrics] = [await readSpend(), await read('/metrics')]
  for (const [n, sandbox] of sandboxes.entries()) {
    const lookups = sandbox.stats().inputs.requested_singly
    expect(lookups).toBeGreaterThan(0)
    expect(ofDay.services?.[n]?.last_30_days.lookups).toBe(lookups)
    expect(metrics).toContain(
      `fillrate_lookups_spent_today{service="${hosts[n]}",source="contacts"} ${lookups}\n`,
    )
  }
})

const POLLED = { interval: 250 }
