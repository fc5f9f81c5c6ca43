import { Gauge, Registry, collectDefaultMetrics } from 'prom-client'
import type { WorkMetrics } from '../pipeline/metrics-recorder.ts'
import { readVersion } from '../util/version.ts'
import { type MetricsInput, listGauges } from './metric-gauges.ts'

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
  const texts = await Promise.all([registry, work.registry, processRegistry].map((one) => one.metrics()))
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
