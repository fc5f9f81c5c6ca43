import { Counter, Histogram, Registry } from 'prom-client'
import { RUN_STATUSES, type Trigger } from '../domain/run.ts'
import { CALLED_ENDPOINTS } from '../domain/spend.ts'
import type { EndedCall } from '../service/transport.ts'

const TRIGGERS: readonly Trigger[] = ['manual', 'schedule', 'follow', 'backfill']
const OUTCOMES = ['found', 'not_found', 'rejected', 'failed', 'pending']
const CALLS = CALLED_ENDPOINTS.flatMap((endpoint) =>
  [...(endpoint === 'bulk' ? ['202'] : ['200', '404']), '401', '403', '429', '500', '503', 'none'].map(
    (status) => ({ endpoint, status }),
  ),
)

/**
 * The counters and histograms of what one process does, in its memory: they begin at 0 with it. Series exist before their
 * first event where their labels are known: `increase()` does not see the first event of a series that begins with it.
 */
export class WorkMetrics {
  readonly registry = new Registry()
  readonly calls = this.#count(
    'fillrate_requests_total',
    'API calls by service, endpoint and status; none: no answer.',
    ['service', 'endpoint', 'status'],
  )
  readonly callSeconds = this.#measure(
    'fillrate_request_duration_seconds',
    'Duration of an API call, from the request to the end of its answer, by service and endpoint.',
    [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    ['service', 'endpoint'],
  )
  readonly lookups = this.#count(
    'fillrate_lookups_total',
    'Lookups by service and outcome; pending: released for a retry.',
    ['service', 'outcome'],
  )
  readonly cells = this.#count(
    'fillrate_cells_written_total',
    'Cells written, by source, those undone since among them.',
    ['source'],
  )
  readonly writeBackSeconds = this.#measure(
    'fillrate_write_back_batch_seconds',
    'Duration of one write-back batch.',
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  )
  readonly deliveryLagSeconds = this.#measure(
    'fillrate_delivery_lag_seconds',
    'Time from receiving a delivery to settling it.',
    [0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300],
  )
  readonly quarantined = this.#count(
    'fillrate_quarantined_results_total',
    'Delivered results that match no input of their job; stored but not used.',
  )
  readonly runs = this.#count('fillrate_runs_total', 'Ended runs by trigger and outcome.', [
    'trigger',
    'status',
  ])

  constructor() {
    for (const trigger of TRIGGERS) for (const status of RUN_STATUSES) this.runs.inc({ trigger, status }, 0)
  }

  #count<Label extends string = never>(name: string, help: string, labelNames: Label[] = []): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] })
  }

  #measure<Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: Label[] = [],
  ): Histogram<Label> {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.registry] })
  }
}

/** Counts what the process does for one service. */
export class MetricsRecorder {
  readonly #work: WorkMetrics
  readonly #service: string

  /**
   * @param service its name in the configuration; of the only one its host
   * @param sources names of the sources that may be written
   */
  constructor(work: WorkMetrics, service: string, sources: readonly string[] = []) {
    this.#work = work
    this.#service = service
    for (const source of sources) work.cells.inc({ source }, 0)
    for (const call of CALLS) work.calls.inc({ service, ...call }, 0)
    for (const endpoint of CALLED_ENDPOINTS) work.callSeconds.zero({ service, endpoint })
    for (const outcome of OUTCOMES) work.lookups.inc({ service, outcome }, 0)
  }

  recordCall({ kind: endpoint = 'person', status, durationMs }: EndedCall): void {
    const call = { endpoint, status: status === null ? 'none' : String(status) }
    this.#work.calls.inc({ service: this.#service, ...call })
    this.#work.callSeconds.observe({ service: this.#service, endpoint }, durationMs / 1_000)
  }

  /** Records outcomes of lookups; `pending` is retried later. */
  recordLookups(outcomes: readonly string[]): void {
    for (const outcome of outcomes) this.#work.lookups.inc({ service: this.#service, outcome })
  }

  /** Records one batch of one source. */
  recordWriteBack(source: string, batch: { readonly ms: number; readonly cells: number }): void {
    this.#work.writeBackSeconds.observe(batch.ms / 1_000)
    this.#work.cells.inc({ source }, batch.cells)
  }

  /** Records how long deliveries waited until they were settled, in milliseconds. */
  recordDeliveryLags(lagsMs: readonly number[]): void {
    for (const ms of lagsMs) this.#work.deliveryLagSeconds.observe(Math.max(0, ms) / 1_000)
  }

  /** Records results that match no input of their job. */
  recordQuarantined(results: number): void {
    this.#work.quarantined.inc(results)
  }

  /** Records the end of a run. @param status as in its report */
  recordRun(trigger: Trigger, status: string): void {
    this.#work.runs.inc({ trigger, status })
  }
}
