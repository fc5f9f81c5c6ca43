import pino from 'pino'
import { request } from 'undici'
import { expect, test } from 'vitest'
import type { SpendReport } from '../../../src/domain/report/status.ts'
import { noSpendSettings } from '../../support/spend.ts'
import { toConditionReport } from '../../../src/domain/condition.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { MetricsRecorder, WorkMetrics } from '../../../src/pipeline/metrics-recorder.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { openTestServer } from '../../support/app-processes.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'
import { freePort } from '../../support/free-port.ts'
import { noSpend } from '../../support/spend.ts'

test('while Postgres is away, a process reports what it knows itself', async () => {
  const log = pino({ level: 'silent' })
  const db = openDatabase({ url: `postgres://x@127.0.0.1:${await freePort()}/x` })
  const work = new WorkMetrics()
  new MetricsRecorder(work, 'acme').recordLookups([])
  const server = await openTestServer({
    dashboard: {
      db,
      log,
      tokens: [],
      app: () => null,
      metrics: work,
      publicUrl: null,
      config: noSpendSettings,
      observer: () => ({ outage: null, schedules: null }),
    },
  })
  try {
    const { statusCode, body } = await request(`http://127.0.0.1:${server.port}/metrics`)
    const text = await body.text()
    expect(statusCode).toBe(200)
    expect(text).toMatch(/^fillrate_database_up 0$/m)
    expect(/^fillrate_build_info\{version="[^"]+",node="([^"]+)"\} 1$/m.exec(text)?.[1]).toBe(
      process.versions.node,
    )
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m)
    expect(text).toContain('\nfillrate_lookups_total{service="acme",outcome="found"} 0\n')
    expect(text).not.toContain('fillrate_rows')
    // promtool takes it for the name of a counter.
    expect(text).not.toMatch(/^# TYPE \S+_total gauge$/m)

    // A page says why it has nothing to show, and loads itself again.
    const page = await request(`http://127.0.0.1:${server.port}/`, { headers: { accept: 'text/html' } })
    const content = await page.body.text()
    expect(page.statusCode).toBe(503)
    expect(content).toContain('Postgres is away')
    expect(content).toContain('http-equiv="refresh"')
    const status = await request(`http://127.0.0.1:${server.port}/api/status`)
    expect(await status.body.json()).toEqual({
      error: expect.stringContaining('Postgres is away'),
    })
  } finally {
    await server.close()
    await db.destroy()
  }
})

test('a series exists before its first event', async () => {
  const work = new WorkMetrics()
  new MetricsRecorder(work, 'acme').recordLookups([])
  const text = await renderMetrics(work, { ...EMPTY_METRICS, followed: ['people'] })
  for (const line of [
    'fillrate_requests_total{service="acme",endpoint="bulk",status="202"} 0',
    'fillrate_requests_total{service="acme",endpoint="poll",status="200"} 0',
    'fillrate_requests_total{service="acme",endpoint="person",status="401"} 0',
    'fillrate_request_duration_seconds_bucket{le="+Inf",service="acme",endpoint="company"} 0',
    'fillrate_request_duration_seconds_count{service="acme",endpoint="company"} 0',
    'fillrate_lookups_total{service="acme",outcome="found"} 0',
    'fillrate_runs_total{trigger="schedule",status="unauthorized"} 0',
    'fillrate_live_sync_backlog_rows{source="people"} 0',
    'fillrate_live_sync_oldest_seconds{source="people"} 0',
    'fillrate_condition{kind="late",service="",source="",severity="error"} 0',
  ])
    expect(text.split('\n')).toContain(line)
})

test('what a process does is counted by service', async () => {
  const work = new WorkMetrics()
  const metrics = new MetricsRecorder(work, 'pdl', ['people', 'others'])
  for (const durationMs of [3, 60, 70_000])
    metrics.recordCall({ endpoint: 'GET /v1/person/enrich', status: 429, durationMs })
  new MetricsRecorder(work, 'acme').recordCall({
    endpoint: 'POST /v1/bulk',
    kind: 'bulk',
    status: null,
    durationMs: 9,
  })
  metrics.recordLookups(['found', 'found', 'not_found'])
  metrics.recordWriteBack('people', { ms: 20, cells: 7 })
  metrics.recordDeliveryLags([-1, 400])
  metrics.recordQuarantined(2)
  metrics.recordRun('follow', 'failed')
  const lines = (await renderMetrics(work, null)).split('\n')
  for (const line of [
    'fillrate_requests_total{service="pdl",endpoint="person",status="429"} 3',
    'fillrate_requests_total{service="acme",endpoint="bulk",status="none"} 1',
    'fillrate_request_duration_seconds_bucket{le="0.05",service="pdl",endpoint="person"} 1',
    'fillrate_request_duration_seconds_bucket{le="0.1",service="pdl",endpoint="person"} 2',
    'fillrate_request_duration_seconds_bucket{le="+Inf",service="pdl",endpoint="person"} 3',
    'fillrate_request_duration_seconds_count{service="pdl",endpoint="person"} 3',
    'fillrate_request_duration_seconds_sum{service="pdl",endpoint="person"} 70.063',
    'fillrate_lookups_total{service="pdl",outcome="found"} 2',
    'fillrate_cells_written_total{source="people"} 7',
    'fillrate_cells_written_total{source="others"} 0',
    'fillrate_write_back_batch_seconds_bucket{le="0.025"} 1',
    'fillrate_delivery_lag_seconds_bucket{le="0.1"} 1',
    'fillrate_delivery_lag_seconds_count 2',
    'fillrate_quarantined_results_total 2',
    'fillrate_runs_total{trigger="follow",status="failed"} 1',
    'fillrate_requests_total{service="pdl",endpoint="person",status="503"} 0',
    'fillrate_lookups_total{service="pdl",outcome="not_found"} 1',
    'fillrate_lookups_total{service="pdl",outcome="failed"} 0',
  ])
    expect(lines).toContain(line)
})

test('conditions and backlogs are those of their service or source', async () => {
  const about = { service: 'acme', source: null, since: new Date(0), details: {} }
  const condition = toConditionReport({ ...about, kind: 'key_refused' }, 61_500)
  const text = await renderMetrics(new WorkMetrics(), {
    ...EMPTY_METRICS,
    now: 61_500,
    backlogs: [
      { source: 'people', rows: 7, isImport: false, oldestAt: new Date(20_000) },
      { source: 'people', rows: 990, isImport: true, oldestAt: new Date(0) },
    ],
    data: { ...EMPTY_METRICS.data, conditions: [condition] },
  })
  for (const line of [
    'fillrate_live_sync_backlog_rows{source="people"} 997',
    'fillrate_live_sync_oldest_seconds{source="people"} 61.5',
    'fillrate_condition{kind="key_refused",service="acme",source="",severity="error"} 1',
  ])
    expect(text.split('\n')).toContain(line)
})

test('of a budget the least that is left, and what every source has spent today, and the service cost', async () => {
  const budget = { run: null, limit: 1_000, spent: 3, used_up_at: null }
  const spend: SpendReport = {
    ...noSpend,
    budgets: [
      { ...budget, kind: 'live_sync', left: 997 },
      { ...budget, kind: 'run', run: 1, left: 40 },
      { ...budget, kind: 'run', run: 2, left: 7 },
    ],
  }
  const text = await renderMetrics(new WorkMetrics(), {
    ...EMPTY_METRICS,
    data: {
      ...EMPTY_METRICS.data,
      services: [
        {
          name: 'acme',
          today: null,
          spentToday: new Map([['people', { lookups: 5, calls: 6 }]]),
          costToday: { amount: 1.5, currency: 'EUR' },
          last30Days: noSpend.last_30_days,
          limits: [],
        },
      ],
      spend,
    },
  })
  expect(text.split('\n')).toEqual(
    expect.arrayContaining([
      'fillrate_budget_remaining_lookups{budget="live_sync"} 997',
      'fillrate_budget_remaining_lookups{budget="run"} 7',
      'fillrate_lookups_spent_today{service="acme",source="people"} 5',
      'fillrate_calls_spent_today{service="acme",source="people"} 6',
      'fillrate_money_spent_today{service="acme",currency="EUR"} 1.5',
    ]),
  )
})
