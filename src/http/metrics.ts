import { Gauge, Registry, collectDefaultMetrics } from 'prom-client'
import type { WorkMetrics } from '../pipeline/metrics-recorder.ts'
import { readVersion } from '../util/version.ts'
import type { DashboardData, Verdict } from '../actions/dashboard-data.ts'
import type { RateLimitReport } from '../domain/report/status.ts'
import { Job } from '../domain/job.ts'
import { ROW_STATES } from '../domain/row.ts'
import { CONDITION_KINDS, severityOf } from '../domain/condition.ts'
import type { QueuedChanges } from '../store/changed-rows.ts'
import type { StoredMetrics } from '../store/metrics.ts'

/** Memory, processor time and the event loop. */
const processRegistry = new Registry()
let isCollecting = false

/** Gauges whose names promtool takes for counters; each sums what `nodejs_active_…` has by type. */
const MISNAMED = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)

function startCollecting(): void {
  isCollecting = true
  collectDefaultMetrics({ register: processRegistry })
  for (const name of MISNAMED) processRegistry.removeSingleMetric(name)
}

/**
 * Renders all metrics in the Prometheus text format 0.0.4.
 *
 * Counters and histograms are those of this process: aggregate them with sum. Gauges of rows, jobs, runs, limits and money are read
 * from the database, so every process exposes the same: aggregate them with max. Their registry is created for each scrape.
 *
 * @param work what this process has done
 * @param input null: the database cannot be read, or not in time
 * @param isUp whether the database answers
 */
export async function renderMetrics(
  work: WorkMetrics,
  input: MetricsInput | null,
  isUp = input !== null,
): Promise<string> {
  if (!isCollecting) startCollecting()
  const registry = new Registry()
  new Gauge({
    name: 'fillrate_build_info',
    help: 'The version of this process; always 1.',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version: readVersion(), node: process.versions.node }, 1)
  new Gauge({
    name: 'fillrate_database_up',
    help: 'Whether this process can read its schema in Postgres. If not, or not within 5 s, what is read there is missing.',
    registers: [registry],
  }).set(isUp ? 1 : 0)
  if (input !== null) addGauges(registry, input)
  const texts = await Promise.all(
    [registry, work.registry, processRegistry].map((registry) => registry.metrics()),
  )
  // Without the blank lines between metrics: the format allows them, but not every parser does.
  return texts.join('\n').replaceAll(/\n{2,}/g, '\n')
}

function addGauges(registry: Registry, input: MetricsInput): void {
  for (const [name, help, samples] of listGauges(input)) {
    const labelNames = Object.keys(samples[0]?.labels ?? {})
    const gauge = new Gauge({ name, help, labelNames, registers: [registry] })
    // Without labels, prom-client starts at 0, a value that was never measured.
    if (samples.length === 0) gauge.remove()
    for (const { labels = {}, value } of samples) gauge.set(labels, value)
  }
}

/** What is known of Fillrate's work: what the dashboard shows, and more. */
export interface MetricsInput extends StoredMetrics {
  readonly data: DashboardData & Pick<Verdict, 'conditions'>
  /** When it was read, in milliseconds. */
  readonly now: number
  /** Sources in live sync. */
  readonly followed: readonly string[]
}

interface MetricSample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number
}

type GaugeList = readonly (readonly [name: string, help: string, samples: readonly MetricSample[]])[]

/** Every gauge with its present values. */
const listGauges = (input: MetricsInput): GaugeList => [
  ...rowGauges(input),
  ...jobGauges(input),
  ...serviceGauges(input),
  ...runGauges(input),
  ...spendGauges(input),
  ...liveSyncGauges(input),
  ...conditionGauges(input),
]

function rowGauges({ data: { sources } }: MetricsInput): GaugeList {
  return [
    [
      'fillrate_rows',
      'Rows ever picked, by source and state.',
      sources.flatMap(({ name, states }) =>
        ROW_STATES.map((state) => ({ labels: { source: name, state }, value: states[state] })),
      ),
    ],
    [
      'fillrate_fill_rate_ratio',
      'Share of eligible rows with a non-blank column, at the last count.',
      sources.flatMap(({ name, fillRate }) =>
        Object.entries(fillRate?.filled ?? {}).map(([column, filled]) => ({
          labels: { source: name, column },
          value: fillRate === null || fillRate.eligible === 0 ? 0 : filled / fillRate.eligible,
        })),
      ),
    ],
    [
      'fillrate_source_paused',
      '1 if the source is paused.',
      sources.map(({ name, pause }) => ({ labels: { source: name }, value: pause === null ? 0 : 1 })),
    ],
  ]
}

function jobGauges({ data: { jobs, readAt }, oldestDeliverySeconds }: MetricsInput): GaugeList {
  const ageOf = (date: Date): number => Math.max(0, (readAt - date.getTime()) / 1_000)
  const open = jobs.filter((group) => group.deadline !== null)
  return [
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
      'fillrate_oldest_unsettled_delivery_seconds',
      'Age of the oldest unsettled delivery; 0: none.',
      [{ value: oldestDeliverySeconds }],
    ],
  ]
}

function serviceGauges({ data: { rateLimits } }: MetricsInput): GaugeList {
  // Of several keys of a service, the one that was used last.
  const limits = [...new Map(rateLimits.toReversed().map((limit) => [limit.service, limit])).values()]
  const ofLimits = (toValue: (limit: RateLimitReport) => number | null): MetricSample[] =>
    limits.flatMap((limit) => {
      const value = toValue(limit)
      return value === null ? [] : [{ labels: { service: limit.service }, value }]
    })
  return [
    [
      'fillrate_rate_limit_requests',
      'Calls that the service allows per window.',
      ofLimits(({ limit }) => limit),
    ],
    [
      'fillrate_rate_limit_remaining_requests',
      'Calls remaining in the current window.',
      ofLimits(({ limit, status }) => (status?.live ? Math.max(0, limit - status.window_used) : limit)),
    ],
  ]
}

function runGauges({ runEnds }: MetricsInput): GaugeList {
  return [
    [
      'fillrate_last_run_end_timestamp_seconds',
      'End of the last run by trigger and outcome.',
      runEnds.map(({ trigger, status, at }) => ({
        labels: { trigger, status },
        value: at.getTime() / 1_000,
      })),
    ],
  ]
}

/** Of one kind, runs in progress among them, the budget with the least left. */
function spendGauges({ data: { spend, services } }: MetricsInput): GaugeList {
  const left = new Map<string, number>()
  for (const { kind, left: remaining } of spend.budgets)
    if (remaining !== null) left.set(kind, Math.min(left.get(kind) ?? Number.POSITIVE_INFINITY, remaining))
  const spentToday = (count: 'lookups' | 'calls'): MetricSample[] =>
    services.flatMap(({ name: service, spentToday: of }) =>
      [...of].map(([source, { [count]: value }]) => ({ labels: { service, source }, value })),
    )
  return [
    [
      'fillrate_budget_remaining_lookups',
      'Lookups left of a budget: live_sync of the day (UTC), run and schedule of a run in progress.',
      [...left].map(([budget, value]) => ({ labels: { budget }, value })),
    ],
    [
      'fillrate_lookups_spent_today',
      'Billed lookups since midnight UTC, by service and source.',
      spentToday('lookups'),
    ],
    ['fillrate_calls_spent_today', 'Calls since midnight UTC, by service and source.', spentToday('calls')],
    [
      'fillrate_money_spent_today',
      'What the lookups since midnight UTC cost, by service, where there is a price.',
      services.flatMap(({ name: service, costToday: cost }) =>
        cost === null ? [] : [{ labels: { service, currency: cost.currency }, value: cost.amount }],
      ),
    ],
  ]
}

function liveSyncGauges({ backlogs, followed, now }: MetricsInput): GaugeList {
  const sources = [...new Set([...followed, ...backlogs.map(({ source }) => source)])]
  const ofSource = (name: string) => backlogs.filter(({ source }) => source === name)
  const ageMs = ({ oldestAt }: QueuedChanges): number => now - oldestAt.getTime()
  return [
    [
      'fillrate_live_sync_backlog_rows',
      'Changed rows that live sync has not picked yet, by source.',
      sources.map((source) => ({
        labels: { source },
        value: ofSource(source).reduce((sum, { rows }) => sum + rows, 0),
      })),
    ],
    [
      'fillrate_live_sync_oldest_seconds',
      'Age of the oldest change that live sync has not picked yet, by source; 0: none.',
      sources.map((source) => ({
        labels: { source },
        value: Math.max(0, ...ofSource(source).map(ageMs)) / 1_000,
      })),
    ],
  ]
}

/**
 * Every kind is there, with 0 while nothing of it holds, so that an alert need not distinguish "none" from "not measured".
 */
function conditionGauges({ data: { conditions } }: MetricsInput): GaugeList {
  const held = conditions.map((condition) => ({
    labels: {
      kind: condition.kind,
      service: condition.service ?? '',
      source: condition.source ?? '',
      severity: condition.severity,
    },
    value: 1,
  }))
  const missing = CONDITION_KINDS.filter((kind) => !conditions.some((condition) => condition.kind === kind))
  const none = missing.map((kind) => ({
    labels: { kind, service: '', source: '', severity: severityOf({ kind, details: {} }) },
    value: 0,
  }))
  const help = '1 while a condition holds, by kind, and the service or source that it is about.'
  return [['fillrate_condition', help, [...held, ...none]]]
}
