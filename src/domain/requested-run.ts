import type { RunSpec } from './run.ts'

/** A run that was requested on the dashboard. It is a row in Postgres, which a daemon claims and executes. */
export interface RequestedRun extends RunSpec {
  /** Requests lookups and stores the records, but writes nothing. */
  readonly isDryRun: boolean
}

/**
 * How long a request waits for a process that executes it, in milliseconds. A daemon that starts days later would
 * spend by surprise.
 */
export const REQUEST_LIFETIME_MS = 60 * 60_000

/** How long a run that a shutdown has interrupted waits for its continuation, in milliseconds. */
export const RESUME_LIFETIME_MS = 24 * 60 * 60_000
