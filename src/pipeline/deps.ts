import type { Logger } from 'pino'
import type { Freshness } from '../domain/lookup.ts'
import type { Breaker } from '../service/breaker.ts'
import type { EnrichmentClient } from '../service/client.ts'
import type { Limiter } from '../service/limiter.ts'
import type { Source } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import type { Slots } from './look-up/slots.ts'
import type { Meter } from './meter.ts'

/** What every step works with. Each takes only the part that it needs. */
export interface Deps {
  readonly db: Database
  /** By name. */
  readonly sources: ReadonlyMap<string, Source>
  readonly log: Logger
  readonly now: () => number
  readonly random: () => number
  readonly rules: Rules
  /** The number of the service that is asked: the answers of another are none of its own. */
  readonly service: number
  /** Counts for whoever looks on. */
  readonly meter?: Meter
}

/** What the steps that call the service need besides. Only the caller has it. */
export interface CallDeps extends Deps {
  readonly client: EnrichmentClient
  readonly limiter: Limiter
  readonly breaker: Breaker
  /** Calls under way at once, over all runs of this process. */
  readonly slots: Slots
  /** Where the service delivers a job's results. Null: bulk is off. */
  readonly webhookUrl: ((job: string) => string) | null
}

export interface Rules extends Freshness {
  /** Tries of one lookup before it is failed. */
  readonly attempts: number
  /** Calls under way at once. */
  readonly concurrency: number
  /** The longest that one call may take. */
  readonly callTimeoutMs: number
  readonly bulkMinimum: number
  readonly bulkDeadlineMs: number
  /** How long a job that is over waits for a further delivery with the results that are missing. */
  readonly bulkGraceMs: number
  /** Bounds every statement on a user's table, in milliseconds. */
  readonly sourceTimeoutMs: number
  /** How long to wait for rows that other transactions have locked, when nothing else moves, in milliseconds. */
  readonly leftWaitMs: number
}

/**
 * How long a claim holds without being extended, in milliseconds. Short, because it is how long the rows of a process
 * that was killed stand still; extended every third of it.
 */
export const LEASE_MS = 15_000
