import { afterAll, beforeAll, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import type { StatusReport } from '../../../src/actions/status.ts'
import { type Sandbox, startSandbox } from '../../../src/sandbox/server.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'
import { runRequest } from '../../support/environment.ts'

// Two services on one database, each with a run of its own, as the dashboard, the status, the metrics and the library show them.

const config = { ...crmConfig, price: { currency: 'EUR', lookup: 0.02 } }
let harness: Harness
let other: Sandbox
let app: App
let at: string
let served: Promise<void>
const stop = new AbortController()

beforeAll(async () => {
  harness = await startHarness({
    config,
    sandbox: { seed: 7, notFoundShare: 0.5 },
    prepare: ({ pool }) => createCrm(pool, 60),
  })
  other = await startSandbox({ seed: 11, notFoundShare: 0.2 })
  app = await harness.open()
  const listening = Promise.withResolvers<string>()
  served = app.serve({ signal: stop.signal, onListening: (url) => listening.resolve(url ?? '') })
  at = (await listening.promise).replace('0.0.0.0', '127.0.0.1')
})
afterAll(async () => {
  stop.abort()
  await served
  await other.close()
  await harness.close()
})

const read = async (path: string): Promise<string> => (await fetch(at + path)).text()
const readWords = async (path: string): Promise<string> =>
  (await read(path)).replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
const readSpend = async () => (JSON.parse(await read('/api/status')) as StatusReport).spend
const report = () => app.serviceReport({ sources: [], since: null, order: null, timeoutMs: 60_000 })

test('with one service the page says what there is, and no other output names it', async () => {
  expect(await readWords('/services')).toContain('No service has answered yet.')
  await harness.run({ route: 'sync' })
  const words = await readWords('/services?since=1d')
  expect(words).toContain(harness.sandbox.url.slice('http://'.length))
  expect(words).toContain('there is no other order')
  expect((await readSpend()).services).toBeUndefined()
  // Only what the metrics are, and no series.
  expect(await read('/metrics')).not.toMatch(/^fillrate_service_/m)
})

test('with two services each is shown beside the other, with its own counts', async () => {
  const second = await harness.open({
    environment: { baseUrl: other.url, apiKeys: other.keys },
    config: { ...config, price: { currency: 'EUR', lookup: 0.1 } },
  })
  await second.run(runRequest({ route: 'sync' }))

  const { services, what_if: whatIf } = await report()
  const hosts = services.map(({ host }) => host ?? '')
  // What is read for all readers is a second old, or more.
  const spendHosts = async () => (await readSpend()).services?.map(({ host }) => host)
  await expect.poll(spendHosts, POLLED).toEqual(hosts)
  await expect.poll(() => read('/metrics'), POLLED).toContain('fillrate_service_')
  const [ofDay, metrics] = [await readSpend(), await read('/metrics')]
  for (const [n, { lookups }] of services.entries()) {
    expect(lookups).toBeGreaterThan(0)
    expect(ofDay.services?.[n]?.last_30_days.lookups).toBe(lookups)
    expect(metrics).toContain(
      `fillrate_service_lookups_spent_today{service="${hosts[n]}",host="${hosts[n]}"} ${lookups}\n`,
    )
  }

  const turned = hosts.toReversed()
  const words = await readWords(`/services?source=contacts&order=${turned.join(',')}`)
  for (const sentence of whatIf[0]?.answer ?? ['none']) expect(words).toContain(sentence)
  expect(words).toContain(`What if: ${turned.join(', then ')}`)
  for (const { cells, only_cells: only } of services.flatMap(({ columns }) => columns))
    expect(words).toMatch(new RegExp(` ${cells} ${only} `))
  expect(await readWords('/services?source=gone')).toContain('no such source')

  const lines = (await read('/services.csv')).trim().split('\r\n')
  const totals = services.map((one) => `${one.service},,,${one.answered},${one.found},${one.lookups}`)
  for (const total of totals) expect(lines.filter((line) => line.startsWith(total))).toHaveLength(1)
  expect(lines).toHaveLength(1 + services.length + services.flatMap(({ columns }) => columns).length)
})

test('files name the service of each line in their last column, where the configuration names several', async () => {
  const readLines = async (path: string) => (await read(path)).trim().split('\r\n')
  const lastOf = (lines: readonly string[]) => lines.map((line) => line.split(',').at(-1))
  expect((await readLines('/spend.csv'))[0]).toMatch(/,credits$/)
  await harness.query(`update fillrate.services set name = 'n' || id`)
  const [head, ...spend] = await readLines('/spend.csv')
  expect(head).toBe('day,source,endpoint,calls,retried,throttled,lookups,in_doubt,credits,service')
  const services = await harness.query<{ name: string }>('select name from fillrate.services order by id')
  expect(new Set(lastOf(spend))).toEqual(new Set(services.map(({ name }) => name)))
  const [rowHead, ...rows] = await readLines('/rows.csv')
  expect(rowHead).toMatch(/,due_at,service$/)
  const stored = await harness.query<{ name: string }>(
    'select name from fillrate.rows r join fillrate.services s on s.id = r.service_id order by r.source, r.key',
  )
  expect(lastOf(rows)).toEqual(stored.map(({ name }) => name))
  await harness.query('update fillrate.services set name = null')
})

test('troubles of two services are told apart', async () => {
  const scopes = ['acme.example k1', 'pdl.example k2']
  await harness.query(
    `insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms, cause)
     select scope, now() + interval '1 minute', 60000, 'failing' from unnest($1::text[]) scope`,
    [scopes],
  )
  const readTitles = async () => {
    const { troubles } = JSON.parse(await read('/api/status')) as StatusReport
    return troubles.map(({ title }) => title)
  }
  for (const scope of scopes) {
    const host = scope.split(' ')[0] ?? ''
    await expect.poll(readTitles, POLLED).toContainEqual(expect.stringContaining(host))
    await expect.poll(() => readWords('/'), POLLED).toContain(host)
  }
})

const POLLED = { interval: 250 }
