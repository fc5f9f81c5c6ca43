import type { RequestCounts } from './report.ts'
import type { RateState } from '../service/rate-limit/limiter.ts'

/** What this process did in a run. Everything else about a run is counted in Postgres. */
export class RunCounters {
  picked = 0
  requested = 0
  submitted = 0
  written = 0
  person = 0
  company = 0
  bulk = 0
  retried = 0
  throttled = 0
  /** When something last moved, by `performance.now`. */
  lastProgressAt = performance.now()

  touch(): void {
    this.lastProgressAt = performance.now()
  }

  requests(): RequestCounts {
    const { person, company, bulk, retried, throttled } = this
    return { person, company, bulk, retried, throttled }
  }
}

/** What a run tells while it works. */
export interface RunProgress {
  /** Rows taken so far; still growing while `picking`. */
  readonly picked: number
  /** Rows in a final state. */
  readonly finished: number
  /** Lookups asked singly, by this process. */
  readonly requested: number
  /** Emails posted in jobs, by this process. */
  readonly submitted: number
  readonly jobsWaiting: number
  readonly picking: boolean
  /** Cells written, by this process. */
  readonly written: number
  /** Null while another process is the caller and has told nothing. */
  readonly rate: RateState | null
  /** Why nothing moves, in words. */
  readonly stallReason: string | null
  readonly elapsedMs: number
}
