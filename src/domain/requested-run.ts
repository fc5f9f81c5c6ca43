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

/** What has become of a request, for the page that waits for it. */
type RequestProgress =
  | { readonly state: 'waiting' }
  | { readonly state: 'started'; readonly run: number }
  | { readonly state: 'ended'; readonly reason: string | null }

/**
 * Derives the progress of a request. A run, once it exists, says everything else itself.
 * @example
 * toRequestProgress({ state: 'running', run_id: 7, reason: null }) // { state: 'started', run: 7 }
 */
export function toRequestProgress(row: {
  readonly state: string
  readonly run_id: number | null
  readonly reason: string | null
}): RequestProgress {
  if (row.run_id !== null) return { state: 'started', run: row.run_id }
  if (row.state === 'done' || row.state === 'skipped') return { state: 'ended', reason: row.reason }
  return { state: 'waiting' }
}
