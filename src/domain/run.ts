import type { ChosenRoute } from './route.ts'
import type { Money } from './report/shape.ts'
import { FillrateError } from '../util/error-text.ts'

/** `running → completed | interrupted | failed`. A run whose lease expired is marked interrupted by another process. */
export const Run = {
  running: 'running',
  completed: 'completed',
  interrupted: 'interrupted',
  failed: 'failed',
} as const
export type RunState = (typeof Run)[keyof typeof Run]

/** What is requested of a run or a plan. */
export interface RunSpec {
  /** Names of sources; none means all. */
  readonly sources: readonly string[]
  /** Maximum rows of each source, including abandoned ones; null: all. */
  readonly limit: number | null
  /** Maximum lookups to request; null: unlimited. */
  readonly budget: number | null
  /** An SQL condition in addition to the source's own; the table is `t`. */
  readonly where: string | null
  readonly route: ChosenRoute
}

/** What started a run; decides its priority at the limiter. */
export type Trigger = 'manual' | 'schedule' | 'follow' | 'backfill'

/** What was requested of a run, as it is stored. */
export interface StoredRunOptions extends Omit<RunSpec, 'sources'> {
  /** Reports what it would write, and writes nothing. */
  readonly dry?: boolean
  /** Its budget in money, where lookups have several prices. */
  readonly money?: Money
  /** The run that this one undoes. */
  readonly undoes?: number
  /** It undoes an undo, and so writes again what was undone. */
  readonly writes_again?: boolean
  /** A live-sync run: its rows come by their keys. */
  readonly follow?: boolean
  /** Makes no calls, and writes stored records again. */
  readonly remap?: boolean
}

/** Who is served first: live sync, then scheduled and manual runs, then a backfill. */
export type Priority = 'urgent' | 'normal' | 'low'

export function toPriority(trigger: Trigger): Priority {
  if (trigger === 'follow') return 'urgent'
  return trigger === 'backfill' ? 'low' : 'normal'
}

/**
 * The reason of an interrupted run.
 * @param cancelledBy null: its own process was interrupted
 * @param cause why, if not on request
 */
export function describeInterruption(cancelledBy: string | null, cause: unknown = null): string {
  if (cancelledBy !== null) return `cancelled by ${cancelledBy}`
  return cause instanceof FillrateError ? cause.message : 'stopped on request'
}

/** A run missed its heartbeats, and another process took over its rows. Nothing is lost. */
export class LeaseLostError extends FillrateError {
  override readonly name = 'LeaseLostError'
  constructor(run: number, leaseMs: number) {
    super(
      `run ${run} lost its lease: no heartbeat for ${leaseMs / 1000} s (machine asleep, or database unreachable?). ` +
        'Another process took over its rows. Run again to finish',
    )
  }
}

/**
 * How a run may end.
 * `unauthorized`: the service rejects the key. `misconfigured`: every call would fail, or be paid for in vain, until a setting or the
 * description of the service is corrected.
 * `out_of_credits`: the account at the service has no credits left.
 */
export const RUN_STATUSES = [
  'completed',
  'budget_reached',
  'out_of_credits',
  'interrupted',
  'unauthorized',
  'misconfigured',
  'failed',
] as const

export type RunStatus = (typeof RUN_STATUSES)[number]

/**
 * How long a request of the dashboard waits for a process that executes it, in milliseconds. A daemon that starts days later would
 * spend by surprise.
 */
export const REQUEST_LIFETIME_MS = 60 * 60_000

/** How long a run that a shutdown has interrupted waits for its continuation, in milliseconds. */
export const RESUME_LIFETIME_MS = 24 * 60 * 60_000
