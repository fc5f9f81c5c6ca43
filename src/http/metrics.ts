import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { ROW_STATES } from '../domain/row.ts'
import { Job } from '../domain/job.ts'
import { Run } from '../domain/run.ts'
import type { DashboardData } from '../actions/dashboard-data.ts'
import type { MetricCounter, RunEnd } from '../store/metrics.ts'

interface MetricSample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number
}

/** Counters of all processes. They are stored in the database, so every process exposes the same values. */
const COUNTERS: ReadonlyArray<readonly [name: string, help: string]> = [
  ['fillrate_requests_total', 'API calls by endpoint and status; none: no answer.'],
  ['fillrate_lookups_total', 'Lookups by outcome; pending: released for a retry.'],
  ['fillrate_cells_written_total', 'Cells written, by source.'],
  [
    'fillrate_quarantined_results_total',
    'Delivered results that match no input of their job; stored but not used.',
  ],
]

/** The same as histograms: their buckets, sums and counts are stored counters. */
const HISTOGRAMS: ReadonlyArray<readonly [name: string, help: string]> = [
  ['fillrate_write_back_batch_seconds', 'Duration of one write-back batch.'],
  ['fillrate_delivery_lag_seconds', 'Time from receiving a delivery to settling it.'],
]

/**
 * Renders all metrics in the Prometheus text format 0.0.4.
 *
 * The registry is created for each scrape: prom-client provides the format, not the numbers, which are those of all
 * processes and come from the database.
 */
export async function renderMetrics(
  data: DashboardData,
  counters: readonly MetricCounter[],
  oldestDeliverySeconds: number,
  runEnds: readonly RunEnd[],
): Promise<string> {
  const registry = new Registry()
  for (const [name, help] of COUNTERS) {
    const own = counters.filter((one) => one.name === name)
    const labelNames = Object.keys(parseLabels(own[0]?.labels ?? ''))
    const counter = new Counter({ name, help, labelNames, registers: [registry] })
    if (own.length === 0) counter.remove()
    for (const { labels, value } of own) counter.inc(parseLabels(labels), value)
  }
  for (const [name, help] of HISTOGRAMS) {
    const own = counters.filter((one) => one.name.startsWith(`${name}_`))
    registry.registerMetric(new StoredHistogram(name, help, own))
  }
  for (const [name, help, samples] of listGauges(data, oldestDeliverySeconds, runEnds)) {
    const labelNames = Object.keys(samples[0]?.labels ?? {})
    const gauge = new Gauge({ name, help, labelNames, registers: [registry] })
    // Without labels, prom-client starts at 0, a value that was never measured.
    if (samples.length === 0) gauge.remove()
    for (const { labels = {}, value } of samples) gauge.set(labels, value)
  }
  // Without the blank lines between metrics: the format allows them, but not every parser does.
  return (await registry.metrics()).replaceAll('\n\n', '\n')
}

/** A histogram whose buckets are counted already; prom-client's own only counts observations. */
class StoredHistogram extends Histogram {
  readonly #empty: Histogram
  readonly #counters: readonly MetricCounter[]

  constructor(name: string, help: string, counters: readonly MetricCounter[]) {
    super({ name, help, registers: [] })
    this.#empty = new Histogram({ name, help, registers: [] })
    this.#counters = counters.toSorted((a, b) => bucketOrder(a) - bucketOrder(b))
  }

  /** The registry prefers this method to `get`. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get()
  }

  override async get(): ReturnType<Histogram['get']> {
    const values = this.#counters.map(({ name, labels, value }) => ({
      metricName: name,
      labels: parseLabels(labels),
      value,
    }))
    return { ...(await this.#empty.get()), values }
  }
}

/** Buckets by bound, then the sum, then the count. */
function bucketOrder({ name, labels }: MetricCounter): number {
  if (name.endsWith('_count')) return Number.POSITIVE_INFINITY
  if (name.endsWith('_sum')) return Number.MAX_VALUE
  const bound = parseLabels(labels)['le']
  return bound === '+Inf' ? Number.MAX_SAFE_INTEGER : Number(bound)
}

/** `endpoint="person",status="200"`, as the counters are stored. */
const parseLabels = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]))

function listGauges(
  data: DashboardData,
  oldestDelivery: number,
  runEnds: readonly RunEnd[],
): [name: string, help: string, samples: MetricSample[]][] {
  const { sources, jobs, rateLimits, runs, readAt } = data
  const open = jobs.filter((group) => group.deadline !== null)
  const ended = runs.find((run) => run.state !== Run.running)
  const ageOf = (date: Date): number => Math.max(0, (readAt - date.getTime()) / 1_000)
  return [
    [
      'fillrate_rows',
      'Rows ever picked, by source and state.',
      sources.flatMap(({ name, states }) =>
        ROW_STATES.map((state) => ({ labels: { source: name, state }, value: states[state] })),
      ),
    ],
    [
      'fillrate_jobs',
      'Bulk jobs by state.',
      Object.values(Job).map((state) => ({
        labels: { state },
        value: jobs.find((group) => group.state === state)?.jobs ?? 0,
      })),
    ],
    [
      'fillrate_oldest_waiting_job_seconds',
      'Age of the oldest job waiting for its delivery; 0: none.',
      [{ value: Math.max(0, ...open.map((group) => ageOf(group.oldest))) }],
    ],
    [
      'fillrate_overdue_jobs',
      'Jobs past their deadline that are not expired yet.',
      [{ value: jobs.reduce((sum, group) => sum + group.overdue, 0) }],
    ],
    [
      'fillrate_oldest_unsettled_delivery_seconds',
      'Age of the oldest unsettled delivery; 0: none.',
      [{ value: oldestDelivery }],
    ],
    [
      'fillrate_rate_limit_requests',
      'Calls that the service allows per window.',
      rateLimits.map(({ scope, limit }) => ({ labels: { scope }, value: limit })),
    ],
    [
      'fillrate_rate_limit_window_seconds',
      'Length of the rate limit window.',
      rateLimits.flatMap(({ scope, windowMs }) =>
        windowMs === null ? [] : [{ labels: { scope }, value: windowMs / 1_000 }],
      ),
    ],
    [
      'fillrate_rate_limit_remaining_requests',
      'Calls remaining in the current window.',
      rateLimits.map(({ scope, limit, status }) => ({
        labels: { scope },
        value: status?.isLive ? Math.max(0, limit - status.windowUsed) : limit,
      })),
    ],
    ['fillrate_runs_running', 'Runs in progress.', [{ value: runs.filter((run) => run.alive).length }]],
    [
      'fillrate_last_run_end_timestamp_seconds',
      'End of the last run by trigger and outcome.',
      runEnds.map(({ trigger, status, at }) => ({
        labels: { trigger, status },
        value: at.getTime() / 1_000,
      })),
    ],
    [
      'fillrate_last_run_failed',
      '1 if the run that ended last failed.',
      ended === undefined ? [] : [{ value: ended.state === Run.failed ? 1 : 0 }],
    ],
    [
      'fillrate_source_paused',
      '1 if the source is paused.',
      sources.map(({ name, pause }) => ({ labels: { source: name }, value: pause === null ? 0 : 1 })),
    ],
    [
      'fillrate_fill_rate_ratio',
      'Share of eligible rows with a non-blank column, at the last count.',
      sources.flatMap(({ name, fillRates: coverage }) => {
        const last = coverage.at(-1)
        return Object.entries(last?.filled ?? {}).map(([column, filled]) => ({
          labels: { source: name, column },
          value: last === undefined || last.eligible === 0 ? 0 : filled / last.eligible,
        }))
      }),
    ],
  ]
}
