import type { Logger } from 'pino'
import type { FreshnessPolicy } from '../domain/lookup.ts'
import type { Breaker } from '../service/breaker.ts'
import type { EnrichmentClient } from '../service/client.ts'
import type { Limiter } from '../service/rate-limit/limiter.ts'
import type { Source } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import type { PrioritySemaphore } from './look-up/slots.ts'
import type { MetricsRecorder } from './metrics-recorder.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { toServiceAddress } from '../service/dispatcher.ts'
import * as services from '../store/services.ts'

/** What every step works with. Each takes only the part that it needs. */
export interface Deps {
  readonly db: Database
  /** By name. */
  readonly sources: ReadonlyMap<string, Source>
  readonly log: Logger
  readonly now: () => number
  readonly random: () => number
  readonly rules: RunPolicy
  /** The number of the service that is asked: the answers of another are none of its own. */
  readonly service: number
  /** Counts for whoever looks on. */
  readonly meter?: MetricsRecorder
}

/** What the steps that call the service need besides. Only the caller has it. */
export interface CallDeps extends Deps {
  readonly client: EnrichmentClient
  readonly limiter: Limiter
  readonly breaker: Breaker
  /** Calls under way at once, over all runs of this process. */
  readonly slots: PrioritySemaphore
  /** Where the service delivers a job's results. Null: bulk is off. */
  readonly webhookUrl: ((job: string) => string) | null
}

export interface RunPolicy extends FreshnessPolicy {
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

/** A statement on a user's table may take this long: a page of 1,000 rows takes milliseconds where it has its index. */
export const SOURCE_TIMEOUT_MS = 60_000

/** A person's transaction may stay open for the night: a run ends without its rows, and the next one writes them. */
const LOCKED_ROWS_WAIT_MS = 10_000

/** What a configuration says to the steps. */
export const toPolicy = (config: Config): RunPolicy => ({
  attempts: config.attempts,
  concurrency: config.service.concurrency,
  callTimeoutMs: config.service.timeoutMs,
  bulkMinimum: config.bulk.minimum,
  bulkDeadlineMs: config.bulk.deadlineMs,
  bulkGraceMs: config.bulk.graceMs,
  refreshAfterMs: config.refreshAfterMs,
  retryNotFoundAfterMs: config.retryNotFoundAfterMs,
  sourceTimeoutMs: SOURCE_TIMEOUT_MS,
  leftWaitMs: LOCKED_ROWS_WAIT_MS,
})

/** What the configured service is known by. Null: none is configured. */
export const configuredAddress = ({ baseUrl }: Pick<Environment, 'baseUrl'>): string | null =>
  baseUrl === null ? null : toServiceAddress(baseUrl)

/**
 * The number of the service that is asked from now on, and whose answers count. Says so where another one was asked
 * before: none of what that one answered is used, and everything is paid again.
 */
export async function registerService(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  address: string | null,
): Promise<number> {
  if (address === null) return services.findService(db, null)
  const known = (await services.listServices(db)).map((one) => one.host)
  if (known.length > 0 && !known.includes(address))
    log.warn(
      { service: address, before: known },
      'another service was asked before: none of its answers counts for this one',
    )
  return services.insertService(db, address)
}
