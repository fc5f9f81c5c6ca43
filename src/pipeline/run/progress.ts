import type { RateState } from '../../service/limiter.ts'

/** What a run tells while it works. */
export interface RunProgress {
  /** Rows taken so far; still growing while `picking`. */
  readonly picked: number
  /** Rows in a final state. */
  readonly settled: number
  /** Lookups asked singly, by this process. */
  readonly asked: number
  /** Emails posted in jobs, by this process. */
  readonly submitted: number
  readonly jobsWaiting: number
  readonly picking: boolean
  /** Cells written, by this process. */
  readonly written: number
  /** Null while another process is the caller and has told nothing. */
  readonly rate: RateState | null
  /** Why nothing moves, in words. */
  readonly waiting: string | null
  readonly elapsedMs: number
}
