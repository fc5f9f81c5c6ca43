import type { RateStatus } from '../domain/rate-status.ts'
import { WakeSignal } from '../util/wake-signal.ts'

/** What this process did in a run, or for one of its services, for its progress. What a run reports at its end is counted in Postgres. */
export class RunCounters {
  picked = 0
  requested = 0
  submitted = 0
  written = 0
  /** Time of the last progress, by `performance.now()`. */
  lastProgressAt = performance.now()
  /** The run may be complete. */
  readonly maybeComplete: WakeSignal
  readonly #ofRun: RunCounters | null

  /** @param ofRun those of the run, if these are of one of its services */
  constructor(ofRun: RunCounters | null = null) {
    this.#ofRun = ofRun
    this.maybeComplete = ofRun?.maybeComplete ?? new WakeSignal()
  }

  touch(): void {
    this.lastProgressAt = performance.now()
    this.#ofRun?.touch()
  }
}

/**
 * Progress of a running run.
 * @example
 * await fillrate.run({ onProgress: ({ finished, picked }) => console.log(`${finished} of ${picked}`) })
 */
export interface RunProgress {
  /** Rows picked so far; growing while `picking`. */
  readonly picked: number
  /** Rows in a final state. */
  readonly finished: number
  /** Single lookups requested by this process. */
  readonly requested: number
  /** Emails posted in jobs by this process. */
  readonly submitted: number
  readonly jobsWaiting: number
  readonly picking: boolean
  /** Cells written by this process. */
  readonly written: number
  /** Null while another process is the leader and has reported nothing. */
  readonly rate: RateStatus | null
  /** Why there is no progress, for people. */
  readonly stallReason: string | null
  readonly elapsedMs: number
  /** Of several services, in their order; the numbers above are those of all. Absent: there is one. */
  readonly services?: readonly ServiceProgress[]
}

/** The progress of one of several services. */
interface ServiceProgress extends Pick<RunProgress, 'requested' | 'submitted' | 'rate' | 'stallReason'> {
  readonly service: string
}
