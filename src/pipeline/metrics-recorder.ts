import type { Logger } from 'pino'
import type { ServiceEndpoint } from '../service/transport.ts'
import * as meters from '../store/metrics.ts'
import type { Database } from '../store/open.ts'

const FLUSH_MS = 2_000

/** Upper bounds, in seconds. */
const WRITE_BACK_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const DELIVERY_BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300]

/**
 * Counts what this process does in memory, and adds it to the totals of all processes: one small statement every two
 * seconds while anything happens, never one per call. Nothing depends on it, so a failed flush is just retried.
 */
export class MetricsRecorder {
  readonly #db: Database
  readonly #log: Logger
  readonly #now: () => number
  #calls = new Map<string, meters.RequestCount>()
  #counters = new Map<string, meters.MetricCounter>()
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(db: Database, log: Logger, now: () => number = Date.now) {
    this.#db = db
    this.#log = log
    this.#now = now
  }

  /** Records a call; status null: no response. */
  recordCall(endpoint: ServiceEndpoint, status: number | null): void {
    const at = Math.floor(this.#now() / meters.REQUEST_COUNT_STEP_MS) * meters.REQUEST_COUNT_STEP_MS
    const one = {
      at,
      endpoint: toCalledEndpoint(endpoint),
      status: status === null ? 'none' : String(status),
    }
    const key = `${at} ${one.endpoint} ${one.status}`
    this.#calls.set(key, { ...one, calls: (this.#calls.get(key)?.calls ?? 0) + 1 })
    this.#add('fillrate_requests_total', `endpoint="${one.endpoint}",status="${one.status}"`, 1)
  }

  /** Records outcomes of lookups; `pending` is retried later. */
  recordLookups(outcomes: readonly string[]): void {
    for (const outcome of outcomes) this.#add('fillrate_lookups_total', `outcome="${outcome}"`, 1)
  }

  /** Records one batch of one source. */
  recordWriteBack(source: string, batch: { readonly ms: number; readonly cells: number }): void {
    this.#observe('fillrate_write_back_batch_seconds', '', batch.ms / 1_000, WRITE_BACK_BOUNDS)
    this.#add('fillrate_cells_written_total', `source="${source}"`, batch.cells)
  }

  /** Records how long deliveries waited until they were settled, in milliseconds. */
  recordDeliveryLags(lagsMs: readonly number[]): void {
    for (const ms of lagsMs)
      this.#observe('fillrate_delivery_lag_seconds', '', Math.max(0, ms) / 1_000, DELIVERY_BOUNDS)
  }

  /** Records results that match no input of their job. */
  recordQuarantined(results: number): void {
    if (results > 0) this.#add('fillrate_quarantined_results_total', '', results)
  }

  /** Adds the counts to the database. Never throws. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush())
    return this.#flushing
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.flush()
  }

  async #flush(): Promise<void> {
    const [calls, counters] = [this.#calls, this.#counters]
    if (calls.size + counters.size === 0) return
    this.#calls = new Map()
    this.#counters = new Map()
    try {
      await meters.addMetrics(this.#db, { calls: [...calls.values()], counters: [...counters.values()] })
    } catch (error) {
      this.#log.debug({ reason: (error as Error).message }, 'metrics not stored; retrying')
      for (const [key, one] of calls)
        this.#calls.set(key, { ...one, calls: one.calls + (this.#calls.get(key)?.calls ?? 0) })
      for (const { name, labels, value } of counters.values()) this.#add(name, labels, value)
    }
  }

  #observe(name: string, labels: string, seconds: number, bounds: readonly number[]): void {
    const before = labels === '' ? '' : `${labels},`
    for (const bound of bounds)
      this.#add(`${name}_bucket`, `${before}le="${bound}"`, seconds <= bound ? 1 : 0)
    this.#add(`${name}_bucket`, `${before}le="+Inf"`, 1)
    this.#add(`${name}_sum`, labels, seconds)
    this.#add(`${name}_count`, labels, 1)
  }

  #add(name: string, labels: string, by: number): void {
    const key = `${name}{${labels}}`
    this.#counters.set(key, { name, labels, value: (this.#counters.get(key)?.value ?? 0) + by })
    this.#startTimer()
  }

  #startTimer(): void {
    this.#timer ??= setInterval(() => void this.flush(), FLUSH_MS).unref()
  }
}

function toCalledEndpoint(endpoint: ServiceEndpoint): meters.CalledEndpoint {
  if (endpoint.endsWith('/bulk')) return 'bulk'
  return endpoint.includes('/company') ? 'company' : 'person'
}
