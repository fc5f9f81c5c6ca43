import type { Log } from '../util/log.ts'
import type { Config, ConfigService } from '../config/config.ts'
import { type Environment, environmentOf } from '../config/environment.ts'
import { nextPollAt } from '../domain/job.ts'
import { type BulkRoute, defaultBulkMinimum, routeLookups } from '../domain/route.ts'
import { type BulkCall, listBulkCalls, type Service } from '../domain/service/service.ts'
import type { Breaker } from '../service/breaker.ts'
import type { EnrichmentClient } from '../service/client.ts'
import { toServiceAddress } from '../service/dispatcher.ts'
import type { Limiter } from '../service/rate-limit/limiter.ts'
import type { BrokenSource } from '../sources/open-sources.ts'
import type { Source } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import type { Bounding } from '../store/budgets.ts'
import type { RunningRun } from '../store/runs.ts'
import * as services from '../store/services.ts'
import type { PrioritySemaphore } from './look-up/slots.ts'
import type { MetricsRecorder } from './metrics-recorder.ts'

/** What every step works with. Each step takes only the part that it needs. */
export interface Deps {
  readonly db: Database
  /** By name. */
  readonly sources: ReadonlyMap<string, Source>
  /** Sources of the configuration that do not fit their tables, by name. */
  readonly brokenSources?: ReadonlyMap<string, BrokenSource>
  readonly log: Log
  readonly now: () => number
  readonly random: () => number
  readonly policy: RunPolicy
  /** Number of the configured service. Responses of another service are not used. */
  readonly service: number
  /** How the service is called. */
  readonly adapter: Service
  /** Counts for the metrics. */
  readonly metrics?: MetricsRecorder
}

/** What steps on a table work with, whichever service has answered. */
export interface TableDeps extends Pick<Deps, 'db'> {
  readonly policy: TablePolicy
  /** Rows that an ended run has left are written once a run has taken them over, within its limit. Absent: at once. */
  readonly leavesEndedRuns?: boolean
}

/** What the steps that call the service need as well. Only the leader has it. */
export interface CallDeps extends Deps {
  readonly client: EnrichmentClient
  readonly limiter: Limiter
  readonly breaker: Breaker
  /** Concurrent calls, over all runs of this process. */
  readonly slots: PrioritySemaphore
  /** URL to which the service delivers a job's results. Null: no delivery arrives here. */
  readonly webhookUrl: ((job: string) => string) | null
}

/** How long a step waits for a user's table. */
export interface TablePolicy {
  /** Statement timeout on a user's table, in milliseconds. */
  readonly sourceTimeoutMs: number
  /** How long to wait for rows locked by other transactions when there is no other progress, in milliseconds. */
  readonly lockedWaitMs: number
}

/** The settings of a service that its steps keep to. */
export type RunPolicy = TablePolicy &
  Pick<
    ConfigService,
    'attempts' | 'concurrency' | 'timeoutMs' | 'bulk' | 'refreshAfterMs' | 'retryNotFoundAfterMs' | 'price'
  >

/** Whether the results of jobs of this endpoint are delivered here. */
export const isDelivered = ({ webhookUrl }: Pick<CallDeps, 'webhookUrl'>, bulk: BulkCall | null): boolean =>
  webhookUrl !== null && bulk?.results === 'webhook'

/** Until when the results of a job that was accepted now are awaited, and when they are fetched first. */
export function awaitResults(
  { adapter, policy, now, webhookUrl }: Pick<CallDeps, 'adapter' | 'policy' | 'now' | 'webhookUrl'>,
  jobId: string | null,
  isAwaitedHere: boolean,
): { readonly deadlineAt: Date; readonly pollAt: Date | null } | null {
  if (!adapter.poll || jobId === null) return null
  const submittedAt = new Date(now())
  const deadlineAt = new Date(now() + policy.bulk.deadlineMs)
  const firstMs = firstPollMs(adapter, isAwaitedHere && webhookUrl !== null)
  return { deadlineAt, pollAt: nextPollAt({ polls: 0, submittedAt, deadlineAt }, { firstMs }, now()) }
}

/** Most results are there within a minute or two. A delivery is sooner than a poll, unless it is lost. */
const FIRST_POLL_MS = 10_000
const FIRST_POLL_AFTER_DELIVERY_MS = 120_000

/**
 * From the submission of a job to its first poll, in milliseconds.
 * @param isDelivered its results may come by webhook: not those of a single lookup
 */
export const firstPollMs = ({ poll }: Pick<CallDeps['adapter'], 'poll'>, isDelivered: boolean): number =>
  poll?.firstMs ?? (isDelivered ? FIRST_POLL_AFTER_DELIVERY_MS : FIRST_POLL_MS)

/** What lookups of a run may cost, and whether its budget bounds how many are requested. */
export function boundingOf(
  { adapter }: Pick<Deps, 'adapter'>,
  { isBounded }: Pick<RunningRun, 'isBounded'>,
): Bounding {
  const { credits, poll, readDelivery } = adapter
  // Only a reader of the description's own can state that results cost something else.
  const mayState =
    [...listBulkCalls(adapter), poll].some((call) => call?.read != null) || readDelivery != null
  return { isBounded, most: credits.isFlat && !mayState ? null : credits.most }
}

/** Decides for each bulk endpoint how a run's waiting lookups are requested. All others are requested singly. */
export const routeRun = (
  { adapter, policy, webhookUrl }: Pick<CallDeps, 'adapter' | 'policy' | 'webhookUrl'>,
  { options, picking }: Pick<RunningRun, 'options' | 'picking'>,
): (BulkRoute & { readonly bulk: BulkCall })[] =>
  listBulkCalls(adapter).map((bulk) => ({
    bulk,
    ...routeLookups({
      option: options.route,
      bulkPossible: webhookUrl !== null || !bulk.needsWebhook,
      picking,
      minimum: policy.bulk.minimum ?? defaultBulkMinimum(bulk),
      size: bulk.size,
    }),
  }))

/**
 * Lease duration in milliseconds, renewed every third of it. Short, because the rows of a killed process stand still
 * for this long.
 */
export const LEASE_MS = 15_000
/** How often a run extends its lease, and reads whether it is cancelled. */
export const HEARTBEAT_MS = 2_000

/** Statement timeout on a user's table: a page of 1,000 rows takes milliseconds with an index. */
export const SOURCE_TIMEOUT_MS = 60_000

/** An interactive transaction may stay open all night: a run ends without its rows, and the next one writes them. */
const LOCKED_ROWS_WAIT_MS = 10_000

export const TABLE_POLICY: TablePolicy = {
  sourceTimeoutMs: SOURCE_TIMEOUT_MS,
  lockedWaitMs: LOCKED_ROWS_WAIT_MS,
}

/**
 * The address that identifies a configured service: its host, and its name too where another one of the configuration has the
 * same. Null: none is configured.
 */
export function configuredAddress(
  service: string | null,
  { serviceNames }: Pick<Config, 'serviceNames'>,
  environment: Environment,
): string | null {
  const hostOf = (name: string | null): string | null => {
    const { baseUrl } = environmentOf(environment, name)
    return baseUrl === null ? null : toServiceAddress(baseUrl)
  }
  const host = hostOf(service)
  if (host === null || service === null) return host
  const isShared = serviceNames.some((name) => name !== service && hostOf(name) === host)
  return isShared ? `${host}/${service}` : host
}

/**
 * Registers the configured service, and returns its number. Warns if another service was
 * used before: none of its responses count, and everything is paid again.
 * @param name in the configuration; null: it has one service, which needs none
 */
export async function registerService(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  address: string | null,
  name: string | null,
): Promise<number> {
  if (address === null) return services.findService(db, null)
  const known = await services.listServices(db)
  const knownHosts = known.map(({ host }) => host)
  if (name === null && knownHosts.length > 0 && !knownHosts.includes(address))
    log.warn(
      { event: 'other_service', service: address, before: knownHosts },
      'another service was used before; none of its responses are used',
    )
  const id = await services.insertService(db, address, known)
  if (name !== null) await services.recordServiceName(db, id, name)
  return id
}
