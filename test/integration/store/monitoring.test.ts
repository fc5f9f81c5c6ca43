import pino from 'pino'
import { expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { MetricsRecorder } from '../../../src/pipeline/metrics-recorder.ts'
import { startProcessReports } from '../../../src/runs/process-reports.ts'
import { acquireLease } from '../../../src/store/leases.ts'
import { CALL_DURATION_BOUNDS_MS, listRequestCounts, type MetricCounter } from '../../../src/store/metrics.ts'
import { listProcesses } from '../../../src/store/processes.ts'
import { useTestDatabase } from '../../support/database.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'
import { personSource } from '../../support/crm.ts'

const log = pino({ level: 'silent' })
const database = useTestDatabase()

test('durations of calls add up over processes and flushes, also one that failed', async () => {
  const { db } = database
  const at = Date.now()
  for (const durations of [[3, 60, 60], [70_000], [60]]) {
    const metrics = new MetricsRecorder(db, log, null, () => at)
    await database.query('alter table fillrate.metric_counters rename to away')
    for (const ms of durations) {
      metrics.recordCall({ endpoint: 'GET /v1/person/enrich', status: 200, durationMs: ms })
      await metrics.flush()
    }
    await database.query('alter table fillrate.away rename to metric_counters')
    await metrics.close()
  }
  const [counted, ...others] = await listRequestCounts(db, 60_000)
  expect(others).toEqual([])
  expect(counted).toMatchObject({ calls: 5, maxMs: 70_000 })
  const shown = counted?.durations.flatMap((calls, n) =>
    calls === 0 ? [] : [[CALL_DURATION_BOUNDS_MS[n], calls]],
  )
  expect(shown).toEqual([
    [5, 1],
    [75, 3],
    [undefined, 1],
  ])
  const rows = await database.query<{ counter: string }>(
    `select name || '{' || labels || '} ' || value as counter from fillrate.metric_counters
      where labels !~ 'le="(?!0.05|0.1"|\\+Inf)' order by counter`,
  )
  expect(rows.map(({ counter }) => counter)).toEqual([
    'fillrate_request_duration_seconds_bucket{endpoint="person",le="+Inf"} 5',
    'fillrate_request_duration_seconds_bucket{endpoint="person",le="0.05"} 1',
    'fillrate_request_duration_seconds_bucket{endpoint="person",le="0.1"} 4',
    'fillrate_request_duration_seconds_count{endpoint="person"} 5',
    'fillrate_request_duration_seconds_sum{endpoint="person"} 70.183',
    'fillrate_requests_total{endpoint="person",status="200"} 5',
  ])
})

test('calls and lookups of a named service are counted for it, too, with each status from its first call', async () => {
  const { db } = database
  const metrics = new MetricsRecorder(db, log, 'pdl')
  metrics.recordCall({ endpoint: 'GET /v1/person/enrich', status: 429, durationMs: 3 })
  metrics.recordLookups(['found', 'found', 'not_found'])
  await metrics.close()
  const counters = await database.query<MetricCounter>(
    `select name, labels, value from fillrate.metric_counters`,
  )
  const text = await renderMetrics({ ...EMPTY_METRICS, counters })
  const lines = text.split('\n').filter((line) => line.startsWith('fillrate_service_'))
  const [requests, lookups] = ['requests', 'lookups'].map(
    (name) => `fillrate_service_${name}_total{service="pdl"`,
  )
  expect(lines).toEqual(
    expect.arrayContaining([
      `${requests},endpoint="person",status="429"} 1`,
      `${requests},endpoint="person",status="503"} 0`,
      `${lookups},outcome="found"} 2`,
      `${lookups},outcome="not_found"} 1`,
      `${lookups},outcome="failed"} 0`,
    ]),
  )
})

test('of several services the settings of each are shown, and no secret', async () => {
  const { db } = database
  const people = personSource('people', { title: 'title' })
  const config = parseConfig(
    {
      services: {
        acme: {},
        other: {
          adapter: { name: 'Other', headers: { 'x-app': 'secret-app' }, person: { path: '/find' } },
          concurrency: 3,
        },
      },
      sources: { people },
      notify: [{ url: 'https://hooks.slack.com/services/T0/B0/secret', form: 'slack' }],
    },
    null,
  )
  const reports = await startProcessReports({ db, log, owner: 'host:2:cd' }, { role: 'start', config })
  const [self, ...others] = await listProcesses(db)
  expect(others).toEqual([])
  await reports.stop()
  expect(self?.config).toMatchObject({
    sources: { people: { turn: { services: ['acme', 'other'] } } },
    services: [
      { name: 'acme', concurrency: 32 },
      { name: 'other', adapter: 'Other', concurrency: 3 },
    ],
  })
  expect(JSON.stringify(self?.config)).not.toContain('secret')
})

test('a process is listed with its leases and configuration until it ends, and no secret is stored', async () => {
  const { db } = database
  const config = parseConfig(
    {
      sources: { people: personSource('crm.people', { title: 'title' }) },
      notify: [{ url: 'https://hooks.slack.com/services/T0/B0/secret', form: 'slack' }],
    },
    '/etc/fillrate.config.json',
  )
  const owner = 'host:1:ab'
  await acquireLease(db, 'api.example 1a2b', crypto.randomUUID(), owner, 60_000)
  const reports = await startProcessReports({ db, log, owner }, { role: 'start', config })
  const [self, ...others] = await listProcesses(db)
  expect(others).toEqual([])
  expect(self).toMatchObject({
    owner,
    role: 'start',
    isAlive: true,
    leases: ['api.example 1a2b'],
    configPath: '/etc/fillrate.config.json',
  })
  expect(JSON.stringify(self?.config)).toContain('hooks.slack.com')
  expect(JSON.stringify(self?.config)).not.toContain('secret')
  await database.query(`update fillrate.processes set seen_at = now() - interval '31 seconds'`)
  expect(await listProcesses(db)).toMatchObject([{ isAlive: false }])
  await reports.stop()
  expect(await listProcesses(db)).toEqual([])
})
