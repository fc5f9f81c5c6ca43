import { ROW_STATES } from '../domain/row.ts'
import { Job } from '../domain/job.ts'
import { Run } from '../domain/run.ts'
import type { DashboardData } from '../actions/dashboard-data.ts'
import type { MetricCounter } from '../store/metrics.ts'

interface MetricSample {
  readonly name?: string
  readonly labels?: Readonly<Record<string, string>> | string
  readonly value: number
}

/** Counters of all processes. They are stored in the database, so every process exposes the same values. */
const COUNTERS: ReadonlyArray<readonly [name: string, type: 'counter' | 'histogram', help: string]> = [
  ['fillrate_requests_total', 'counter', 'API calls by endpoint and status; none: no answer.'],
  ['fillrate_lookups_total', 'counter', 'Lookups by outcome; pending: released for a retry.'],
  ['fillrate_cells_written_total', 'counter', 'Cells written, by source.'],
  ['fillrate_write_back_batch_seconds', 'histogram', 'Duration of one write-back batch.'],
  ['fillrate_delivery_lag_seconds', 'histogram', 'Time from receiving a delivery to settling it.'],
  [
    'fillrate_quarantined_results_total',
    'counter',
    'Delivered results that match no input of their job; stored but not used.',
  ],
]

/** All metrics in the Prometheus text format 0.0.4. Pure. */
export function renderMetrics(
  board: DashboardData,
  counters: readonly MetricCounter[],
  oldestDeliverySeconds: number,
): string {
  return [
    ...COUNTERS.map(([name, type, help]) => renderCounter(name, type, help, counters)),
    ...listGauges(board, oldestDeliverySeconds).map(([name, help, samples]) =>
      renderMetric(name, 'gauge', help, samples),
    ),
  ].join('')
}

function listGauges(
  board: DashboardData,
  oldestDelivery: number,
): [name: string, help: string, samples: MetricSample[]][] {
  const { sources, jobs, rateLimits: quotas, runs, readAt: at } = board
  const open = jobs.filter((group) => group.deadline !== null)
  const ended = runs.find((run) => run.state !== Run.running)
  const ageOf = (date: Date): number => Math.max(0, (at - date.getTime()) / 1_000)
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
      quotas.map(({ scope, limit }) => ({ labels: { scope }, value: limit })),
    ],
    [
      'fillrate_rate_limit_window_seconds',
      'Length of the rate limit window.',
      quotas.flatMap(({ scope, windowMs }) =>
        windowMs === null ? [] : [{ labels: { scope }, value: windowMs / 1_000 }],
      ),
    ],
    [
      'fillrate_rate_limit_remaining_requests',
      'Calls remaining in the current window.',
      quotas.map(({ scope, limit, status }) => ({
        labels: { scope },
        value: status?.isLive ? Math.max(0, limit - status.windowUsed) : limit,
      })),
    ],
    ['fillrate_runs_running', 'Runs in progress.', [{ value: runs.filter((run) => run.alive).length }]],
    [
      'fillrate_last_run_end_timestamp_seconds',
      'End of the last finished run.',
      ended?.finished_at ? [{ value: ended.finished_at.getTime() / 1_000 }] : [],
    ],
    [
      'fillrate_last_run_failed',
      '1 if that run failed.',
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

function renderCounter(
  name: string,
  type: 'counter' | 'histogram',
  help: string,
  counters: readonly MetricCounter[],
): string {
  const own = counters.filter(
    (one) => one.name === name || (type === 'histogram' && one.name.startsWith(`${name}_`)),
  )
  const ordered = type === 'histogram' ? own.toSorted((a, b) => bucketOrder(a) - bucketOrder(b)) : own
  return renderMetric(
    name,
    type,
    help,
    ordered.map((one) => ({ name: one.name, labels: one.labels, value: one.value })),
  )
}

/** Buckets by bound, then the sum, then the count. */
function bucketOrder({ name, labels }: MetricCounter): number {
  if (name.endsWith('_count')) return Number.POSITIVE_INFINITY
  if (name.endsWith('_sum')) return Number.MAX_VALUE
  const bound = /le="([^"]+)"/.exec(labels)?.[1] ?? ''
  return bound === '+Inf' ? Number.MAX_SAFE_INTEGER : Number(bound)
}

function renderMetric(name: string, type: string, help: string, samples: readonly MetricSample[]): string {
  const lines = samples.map((one) => {
    const labels = typeof one.labels === 'string' ? one.labels : renderLabels(one.labels ?? {})
    return `${one.name ?? name}${labels === '' ? '' : `{${labels}}`} ${one.value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

const renderLabels = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(
      ([name, value]) =>
        `${name}="${value.replaceAll(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))}"`,
    )
    .join(',')
