import { describeError } from '../util/error-text.ts'
import type { Log } from '../util/log.ts'
import type { EndedCall } from '../service/transport.ts'
import * as meters from '../store/metrics.ts'
import type { Database } from '../store/open.ts'

const FLUSH_MS = 2_000

/** The histograms: upper bounds in seconds, and the labels that exist from the start. */
export const STORED_HISTOGRAMS = {
  fillrate_request_duration_seconds: {
    help: 'Duration of an API call, from the request to the end of its answer, by endpoint.',
    bounds: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    initial: ['endpoint="person"', 'endpoint="company"', 'endpoint="bulk"', 'endpoint="poll"'],
  },
  fillrate_write_back_batch_seconds: {
    help: 'Duration of one write-back batch.',
    bounds: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    initial: [''],
  },
  fillrate_delivery_lag_seconds: {
    help: 'Time from receiving a delivery to settling it.',
    bounds: [0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300],
    initial: [''],
  },
} as const

/**
 * Counts what this process does in memory, and adds it to the totals of all processes: one small statement every two
 * seconds while anything happens, never one per call. Nothing depends on it, so a failed flush is just retried.
 */
export class MetricsRecorder {
  readonly #db: Database
  readonly #log: Log
  readonly #service: string | null
  readonly #now: () => number
  #tally = new Tally()
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()

  /** @param service its name in the configuration: what is called is counted for it, too; null: it is the only one */
  constructor(db: Database, log: Log, service: string | null = null, now: () => number = Date.now) {
    this.#db = db
    this.#log = log
    this.#service = service
    this.#now = now
  }

  recordCall({ kind = 'person', status, durationMs }: EndedCall): void {
    const at = Math.floor(this.#now() / meters.REQUEST_COUNT_STEP_MS) * meters.REQUEST_COUNT_STEP_MS
    const answer = status === null ? 'none' : String(status)
    this.#tally.addCall(at, kind, answer, durationMs)
    if (this.#service !== null)
      this.#tally.add(
        'fillrate_service_requests_total',
        `service="${this.#service}",endpoint="${kind}",status="${answer}"`,
        1,
      )
    this.#startTimer()
  }

  /** Records outcomes of lookups; `pending` is retried later. */
  recordLookups(outcomes: readonly string[]): void {
    for (const outcome of outcomes) {
      const labels = `outcome="${outcome}"`
      this.#add('fillrate_lookups_total', labels, 1)
      if (this.#service !== null)
        this.#add('fillrate_service_lookups_total', `service="${this.#service}",${labels}`, 1)
    }
  }

  /** Records one batch of one source. */
  recordWriteBack(source: string, batch: { readonly ms: number; readonly cells: number }): void {
    this.#tally.observe('fillrate_write_back_batch_seconds', '', batch.ms / 1_000)
    this.#add('fillrate_cells_written_total', `source="${source}"`, batch.cells)
  }

  /** Records how long deliveries waited until they were settled, in milliseconds. */
  recordDeliveryLags(lagsMs: readonly number[]): void {
    for (const ms of lagsMs) this.#tally.observe('fillrate_delivery_lag_seconds', '', Math.max(0, ms) / 1_000)
    if (lagsMs.length > 0) this.#startTimer()
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
    const tally = this.#tally
    if (tally.isEmpty) return
    this.#tally = new Tally()
    try {
      await meters.addMetrics(this.#db, { calls: tally.calls(), counters: tally.counters() })
    } catch (error) {
      this.#log.debug(
        { event: 'metrics_not_stored', reason: describeError(error) },
        'metrics not stored; retrying',
      )
      tally.absorb(this.#tally)
      this.#tally = tally
    }
  }

  #add(name: string, labels: string, by: number): void {
    this.#tally.add(name, labels, by)
    this.#startTimer()
  }

  #startTimer(): void {
    this.#timer ??= setInterval(() => void this.flush(), FLUSH_MS).unref()
  }
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
type CallCount = Writable<Omit<meters.RequestCount, 'durations'>> & { readonly durations: number[] }

interface Histogram {
  readonly name: keyof typeof STORED_HISTOGRAMS
  readonly labels: string
  /** Values by the first bound that is not below them, and last those above all. */
  readonly counts: number[]
  sum: number
}

/**
 * What was counted since the last flush. A call changes four numbers: the dozen counters of its histogram are computed once
 * a flush.
 */
class Tally {
  readonly #calls = new Map<string, CallCount>()
  readonly #values = new Map<string, Writable<meters.MetricCounter>>()
  readonly #histograms = new Map<string, Histogram>()

  get isEmpty(): boolean {
    return this.#calls.size + this.#values.size + this.#histograms.size === 0
  }

  addCall(at: number, endpoint: meters.RequestCount['endpoint'], status: string, ms: number): void {
    const sum = this.#callsOf(at, endpoint, status)
    sum.calls++
    sum.maxMs = Math.max(sum.maxMs, Math.round(ms))
    increment(sum.durations, slotOf(meters.CALL_DURATION_BOUNDS_MS, ms))
    this.observe('fillrate_request_duration_seconds', `endpoint="${endpoint}"`, ms / 1_000)
  }

  add(name: string, labels: string, by: number): void {
    const key = `${name}{${labels}}`
    const counter = this.#values.get(key)
    if (counter === undefined) this.#values.set(key, { name, labels, value: by })
    else counter.value += by
  }

  observe(name: Histogram['name'], labels: string, seconds: number): void {
    const histogram = this.#histogramOf(name, labels)
    increment(histogram.counts, slotOf(STORED_HISTOGRAMS[name].bounds, seconds))
    histogram.sum += seconds
  }

  /** Adds what another has counted. */
  absorb(other: Tally): void {
    for (const { at, endpoint, status, calls, durations, maxMs } of other.#calls.values()) {
      const sum = this.#callsOf(at, endpoint, status)
      sum.calls += calls
      sum.maxMs = Math.max(sum.maxMs, maxMs)
      for (const [slot, count] of durations.entries()) increment(sum.durations, slot, count)
    }
    for (const { name, labels, value } of other.#values.values()) this.add(name, labels, value)
    for (const { name, labels, counts, sum } of other.#histograms.values()) {
      const histogram = this.#histogramOf(name, labels)
      histogram.sum += sum
      for (const [slot, count] of counts.entries()) increment(histogram.counts, slot, count)
    }
  }

  calls(): readonly meters.RequestCount[] {
    return [...this.#calls.values()]
  }

  /** The counters in the terms of Prometheus, whose buckets count everything up to their bound. */
  counters(): meters.MetricCounter[] {
    const counted = new Tally()
    for (const { name, labels, value } of this.#values.values()) counted.add(name, labels, value)
    for (const { endpoint, status, calls } of this.#calls.values())
      counted.add('fillrate_requests_total', `endpoint="${endpoint}",status="${status}"`, calls)
    for (const { name, labels, counts, sum } of this.#histograms.values()) {
      const before = labels === '' ? '' : `${labels},`
      let total = 0
      for (const [slot, bound] of [...STORED_HISTOGRAMS[name].bounds, '+Inf'].entries()) {
        total += counts[slot] ?? 0
        counted.add(`${name}_bucket`, `${before}le="${bound}"`, total)
      }
      counted.add(`${name}_sum`, labels, sum)
      counted.add(`${name}_count`, labels, total)
    }
    return [...counted.#values.values()]
  }

  #callsOf(at: number, endpoint: CallCount['endpoint'], status: string): CallCount {
    const key = `${at} ${endpoint} ${status}`
    const found = this.#calls.get(key)
    if (found !== undefined) return found
    const durations = zeros(meters.CALL_DURATION_BOUNDS_MS)
    const sum = { at, endpoint, status, calls: 0, durations, maxMs: 0 }
    this.#calls.set(key, sum)
    return sum
  }

  #histogramOf(name: Histogram['name'], labels: string): Histogram {
    const key = `${name} ${labels}`
    const found = this.#histograms.get(key)
    if (found !== undefined) return found
    const histogram = { name, labels, counts: zeros(STORED_HISTOGRAMS[name].bounds), sum: 0 }
    this.#histograms.set(key, histogram)
    return histogram
  }
}

/** One for each bound, and one for what is above all. */
const zeros = (bounds: readonly number[]): number[] => Array.from({ length: bounds.length + 1 }, () => 0)

function slotOf(bounds: readonly number[], value: number): number {
  const slot = bounds.findIndex((bound) => value <= bound)
  return slot === -1 ? bounds.length : slot
}

function increment(counts: number[], slot: number, by = 1): void {
  counts[slot] = (counts[slot] ?? 0) + by
}
