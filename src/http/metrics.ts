import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { RUN_STATUSES } from '../domain/run.ts'
import { CALLED_ENDPOINTS } from '../domain/spend.ts'
import { STORED_HISTOGRAMS } from '../pipeline/metrics-recorder.ts'
import type { MetricCounter } from '../store/metrics-data.ts'
import { readVersion } from '../util/version.ts'
import { type MetricsInput, listGauges } from './metric-gauges.ts'

const CALLS = CALLED_ENDPOINTS.flatMap((endpoint) =>
  [...(endpoint === 'bulk' ? ['202'] : ['200', '404']), '401', '403', '429', '500', '503', 'none'].map(
    (status) => `endpoint="${endpoint}",status="${status}"`,
  ),
)
const OUTCOMES = ['found', 'not_found', 'rejected', 'failed', 'pending'].map(
  (outcome) => `outcome="${outcome}"`,
)

/** Counters by service, where the configuration names several; with those labels that each has from its first event. */
const SERVICE_COUNTERS: typeof COUNTERS = [
  [
    'fillrate_service_requests_total',
    'API calls by service, endpoint and status, of several services.',
    CALLS,
  ],
  ['fillrate_service_lookups_total', 'Lookups by service and outcome, of several services.', OUTCOMES],
]

/**
 * Counters of all processes, with the labels that exist from the start: `increase()` does not see the first event of a
 * series that begins with it.
 */
const COUNTERS: ReadonlyArray<readonly [name: string, help: string, initial: readonly string[]]> = [
  ['fillrate_requests_total', 'API calls by endpoint and status; none: no answer.', CALLS],
  ['fillrate_lookups_total', 'Lookups by outcome; pending: released for a retry.', OUTCOMES],
  ['fillrate_cells_written_total', 'Cells written, by source, those undone since among them.', []],
  [
    'fillrate_quarantined_results_total',
    'Delivered results that match no input of their job; stored but not used.',
    [''],
  ],
  [
    'fillrate_runs_total',
    'Ended runs by trigger and outcome.',
    ['manual', 'schedule', 'follow', 'backfill'].flatMap((trigger) =>
      RUN_STATUSES.map((status) => `trigger="${trigger}",status="${status}"`),
    ),
  ],
  [
    'fillrate_scheduled_runs_total',
    'Firings of the schedule by outcome: done, or skipped.',
    ['outcome="done"', 'outcome="skipped"'],
  ],
]

/** Of this process alone: memory, processor time and the event loop. */
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
 * Metrics of Fillrate's work are those of all processes and come from the database, so every process exposes the same:
 * aggregate them with max. `process_*`, `nodejs_*`, `fillrate_build_info` and `fillrate_database_up` are of this process.
 * The registry is created for each scrape: prom-client provides the format, not the numbers.
 *
 * @param input null: the database cannot be read, or not in time
 * @param isUp whether the database answers
 */
export async function renderMetrics(input: MetricsInput | null, isUp = input !== null): Promise<string> {
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
    help: 'Whether this process can read its schema in Postgres. If not, or not within 5 s, all other fillrate_ metrics are missing.',
    registers: [registry],
  }).set(isUp ? 1 : 0)
  if (input !== null) addStoredMetrics(registry, input)
  const texts = await Promise.all([registry.metrics(), processRegistry.metrics()])
  // Without the blank lines between metrics: the format allows them, but not every parser does.
  return texts.join('\n').replaceAll(/\n{2,}/g, '\n')
}

/** @param zeros the labels of series that exist from the start */
function addCounter(
  registry: Registry,
  name: string,
  help: string,
  counters: MetricsInput['counters'],
  zeros: readonly string[],
): void {
  const own = counters.filter((one) => one.name === name)
  const missing = zeros.filter((labels) => !own.some((one) => one.labels === labels))
  const all = [...own, ...missing.map((labels) => ({ labels, value: 0 }))]
  const labelNames = Object.keys(parseLabels(all[0]?.labels ?? ''))
  const counter = new Counter({ name, help, labelNames, registers: [registry] })
  if (all.length === 0) counter.remove()
  for (const { labels, value } of all) counter.inc(parseLabels(labels), value)
}

function addStoredMetrics(registry: Registry, input: MetricsInput): void {
  const { counters } = input
  for (const [name, help, initial] of COUNTERS) {
    const sources = name === 'fillrate_cells_written_total' ? input.data.sources : []
    const zeros = [...initial, ...sources.map((source) => `source="${source.name}"`)]
    addCounter(registry, name, help, counters, zeros)
  }
  const ofServices = counters.filter(({ name }) => SERVICE_COUNTERS.some(([one]) => one === name))
  const services = new Set(ofServices.flatMap(({ labels }) => parseLabels(labels)['service'] ?? []))
  for (const [name, help, initial] of SERVICE_COUNTERS) {
    const zeros = [...services].flatMap((one) => initial.map((labels) => `service="${one}",${labels}`))
    addCounter(registry, name, help, counters, zeros)
  }
  for (const [name, { help, bounds, initial }] of Object.entries(STORED_HISTOGRAMS)) {
    const own = counters.filter((one) => one.name.startsWith(`${name}_`))
    const missing = initial.filter(
      (labels) => !own.some((one) => one.name === `${name}_count` && one.labels === labels),
    )
    const zeros = missing.flatMap((labels) => emptyHistogram(name, labels, bounds))
    registry.registerMetric(new StoredHistogram(name, help, [...own, ...zeros]))
  }
  for (const [name, help, samples] of listGauges(input)) {
    const labelNames = Object.keys(samples[0]?.labels ?? {})
    const gauge = new Gauge({ name, help, labelNames, registers: [registry] })
    // Without labels, prom-client starts at 0, a value that was never measured.
    if (samples.length === 0) gauge.remove()
    for (const { labels = {}, value } of samples) gauge.set(labels, value)
  }
}

function emptyHistogram(name: string, labels: string, bounds: readonly number[]): MetricCounter[] {
  const before = labels === '' ? '' : `${labels},`
  return [
    ...[...bounds, '+Inf'].map((bound) => ({
      name: `${name}_bucket`,
      labels: `${before}le="${bound}"`,
      value: 0,
    })),
    { name: `${name}_sum`, labels, value: 0 },
    { name: `${name}_count`, labels, value: 0 },
  ]
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
