import type { LeftOutSource } from '../domain/report/run.ts'
import * as runs from '../store/runs.ts'
import * as pauses from '../store/source-state.ts'
import type { CircuitCause } from '../domain/rate-status.ts'
import type { ConfiguredBudget, MixedBudget } from '../domain/spend.ts'
import { createBudget, toRunBound, type RunBudget } from '../pipeline/pick/budget.ts'
import type { PickContext } from '../pipeline/pick/pass.ts'
import type { ServiceError } from '../service/errors.ts'
import type { Source } from '../sources/source-model.ts'
import type { ServiceSources } from '../store/run-progress.ts'
import type { Scopes } from '../store/runs.ts'
import { RunCounters } from './counters.ts'
import type { LeaderElector } from './leadership.ts'
import type { DeletedRowsReport } from './pick-sources.ts'
import { isFit, checkBreakage, listLeftOut } from './source-health.ts'
import type { CallSetup, Workers } from './workers.ts'
import {
  LeaseLostError,
  describeInterruption,
  Run,
  type RunSpec,
  type Trigger,
  type RunState,
  type RunStatus,
  type StoredRunOptions,
} from '../domain/run.ts'
import { HEARTBEAT_MS, LEASE_MS, type Deps, type TableDeps } from '../pipeline/deps.ts'
import { repeating, runLoop, logWait } from './loop.ts'
import { randomUUID } from 'node:crypto'
import { retryWhileUnavailable } from '../store/transaction.ts'
import { readOverruns } from '../store/spend.ts'
import { describeError } from '../util/error-text.ts'
import { withoutValues } from './report.ts'

/** What a run needs of its process, for one of its services. */
export interface RunDeps extends CallSetup {
  /** The most for this service, of a budget that several share. */
  readonly serviceBudget?: ConfiguredBudget | null
  /** Only the leader of its scope serves the runs of this process. */
  readonly elector: Pick<LeaderElector, 'scope' | 'acquire' | 'readStatus' | 'findOpenCircuit'>
  /** Identifies this process in tables and logs; unique for each start. */
  readonly owner: string
  /** What Postgres refuses to this process, in words; null: nothing. */
  readonly describeOutage: () => string | null
}

/** A service, as the runs of a process use it. Without workers each run does all steps itself. */
export interface ServiceProcess {
  readonly deps: RunDeps
  readonly workers?: Workers
}

/** An outage of a service that a run has met. */
export interface Outage {
  /** Service and key. */
  readonly scope: string
  /** How long it has lasted, in milliseconds. */
  readonly ms: number
  /** `connection refused`, `HTTP 503`; null: unknown. */
  readonly reason: string | null
  readonly cause: CircuitCause
  /** The service has answered this run before. */
  readonly wasAnswered: boolean
  /** Own rows that wait for a lookup. */
  readonly waiting: number
  /** It has lasted too long to wait for its end. */
  readonly isTooLong: boolean
}

/** What a run does with one of its services, and what became of it. */
export interface ServicePart<PartDeps = RunDeps> extends PickContext {
  /** Of the service, in the configuration; empty: it has one. */
  readonly name: string
  readonly deps: PartDeps
  /** Those that it serves, each as it fills them: open and not paused. */
  readonly sources: readonly Source[]
  readonly budget: RunBudget
  readonly counters: RunCounters
  /** Rows may still go on to it from a service before, so that jobs are to be filled. */
  isGathering: boolean
  /** By name: sources that are broken. */
  readonly leftOut: Map<string, LeftOutSource>
  /** What ends it: the others go on. */
  readonly failures: unknown[]
  fatalError: ServiceError | null
  /** A call was refused because the account has no credits left: nothing more is picked. */
  isOutOfCredits: boolean
  /** The service is down; null: it is not. */
  outage: Outage | null
  /** Why the service grants no call for longer than a run waits; null: it does, or nothing waits for one. */
  longPause: string | null
}

/** What a run leaves behind when it ends. */
export interface Leftover {
  /** Rows of the same sources held by other runs. */
  others: number
  /** Own rows whose lookups are retried by the next run or the daemon, and when the first of them is. */
  later: number
  laterAt: Date | null
  /** Own rows that are answered but locked by other transactions. */
  locked: number
}

/** What a run observes, to report at its end. */
export class RunObservations {
  /** What ends it as a whole. */
  readonly failures: unknown[] = []
  /** What it left to other runs when it completed. */
  leftover: Leftover = { others: 0, later: 0, laterAt: null, locked: 0 }
  /** Sources skipped, or not picked any further, because they were paused. */
  readonly pausedSources = new Set<string>()
  /** Sources not read to the end because another transaction had locked their table. */
  readonly unreadSources = new Set<string>()
  /** Sources of which a dry run read a part, at random places. */
  readonly sampledSources = new Set<string>()
  readonly deletedRows = new Map<string, DeletedRowsReport>()
  /** Who has cancelled the run; null: no one. */
  cancelledBy: string | null = null
}

export const createPart = <PartDeps>(
  part: Pick<ServicePart<PartDeps>, 'name' | 'deps' | 'id' | 'service' | 'sources' | 'budget'>,
  counters: RunCounters,
): ServicePart<PartDeps> => ({
  ...part,
  counters: new RunCounters(counters),
  leftOut: new Map(),
  isGathering: false,
  failures: [],
  fatalError: null,
  isOutOfCredits: false,
  outage: null,
  longPause: null,
})

/** For what is done for no service in particular. @throws Error if there is none */
export function firstOf<Part>(parts: readonly Part[]): Part {
  const [first] = parts
  if (first === undefined) throw new Error('a run has one service at least')
  return first
}

/** It waits for nothing any more: its service rejects the key, or one of its steps has failed. */
export const isEnded = ({ fatalError, failures }: Pick<ServicePart, 'fatalError' | 'failures'>): boolean =>
  fatalError !== null || failures.length > 0

/** The keys that a process calls the services of a run with. */
export const scopesOf = (
  services: readonly { readonly service: number; readonly elector: { readonly scope: string } }[],
): Scopes => Object.fromEntries(services.map(({ service, elector }) => [service, elector.scope]))

type ServedSources = Pick<ServicePart, 'service' | 'sources'>

const namesWhere = (
  { service, sources }: ServedSources,
  isMeant: (source: Source) => boolean,
): ServiceSources => ({ service, sources: sources.filter(isMeant).map(({ name }) => name) })

/** Its sources that fit their tables. */
export const fitSources = (part: ServedSources): ServiceSources => namesWhere(part, isFit)

export const brokenSources = (part: ServedSources): ServiceSources =>
  namesWhere(part, (source) => !isFit(source))

/** The services of a run whose rows may go on to this one. */
export const partsBefore = <Part extends Pick<ServicePart, 'name' | 'sources'>>(
  part: Part,
  parts: readonly Part[],
): Part[] => {
  const before = new Set(
    part.sources.flatMap(({ mapping: { step } }) => step.services.slice(0, step.services.indexOf(part.name))),
  )
  return parts.filter(({ name }) => before.has(name))
}

/**
 * Whether rows may come back to a service over others: with opposite orders of services. Such services do not keep inputs for a full
 * job, because each would wait for the other's rows. Pure.
 */
export function isAfterItself<Part extends Pick<ServicePart, 'name' | 'sources'>>(
  part: Part,
  parts: readonly Part[],
): boolean {
  const earlier = new Set<Part>()
  for (const queue = [part]; queue.length > 0;)
    for (const before of partsBefore(queue.pop() ?? part, parts))
      if (!earlier.has(before)) {
        earlier.add(before)
        queue.push(before)
      }
  return earlier.has(part)
}

/** The sources that the services of a run have left out, each once. */
export const listLeftOutOf = (parts: readonly Pick<ServicePart, 'leftOut'>[]): LeftOutSource[] => [
  ...new Map(parts.flatMap(({ leftOut }) => [...leftOut])).values(),
]

/**
 * Keeps a run's lease.
 * @param onCancelled called once the run is cancelled
 * @throws LeaseLostError if another process declared the run dead
 */
export function heartbeat(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  id: number,
  token: string,
  signal: AbortSignal,
  onCancelled: (by: string) => void,
): Promise<void> {
  const beat = async (): Promise<number> => {
    const lease = await runs.extendRunLease(db, id, token, LEASE_MS)
    if (lease === null) throw new LeaseLostError(id, LEASE_MS)
    if (lease.cancelledBy !== null) onCancelled(lease.cancelledBy)
    return HEARTBEAT_MS
  }
  return runLoop(repeating({ name: 'heartbeat', signal, log }, beat))
}

export interface StartRunOptions extends RunSpec {
  readonly trigger: Trigger
  /** Shares the budget of all runs with this name: a resumed scheduled run continues with what is left. */
  readonly budgetName?: string | null
  /** The budget in money, where its lookups have several prices. */
  readonly mixed?: MixedBudget | null
  /** Requests lookups but writes nothing: the report shows what would be written, with this many rows as a sample. */
  readonly dryRun?: { readonly sample: number } | null
  /** Interrupts the run: nothing new starts, calls in flight finish, the state is saved. */
  readonly signal: AbortSignal
}

/** A run that is stored. */
export interface StartedRun {
  readonly id: number
  readonly token: string
  readonly trigger: Trigger
  /** What it does with each of its services, in their order. */
  readonly parts: readonly ServicePart[]
  readonly counters: RunCounters
  /** By `performance.now()`. */
  readonly startedAt: number
  readonly observations: RunObservations
}

/** The sources of a run that one of its services serves. */
interface RequestedSources {
  readonly deps: RunDeps
  readonly sources: readonly Source[]
  readonly leftOut: readonly LeftOutSource[]
}

/** Stores a run of the sources that are open and not paused. @param services in their order, one at least */
export async function startRun(services: readonly RunDeps[], options: StartRunOptions): Promise<StartedRun> {
  const startedAt = performance.now()
  const { trigger, limit, budget, where, route, mixed = null } = options
  const observations = new RunObservations()
  const isDryRun = options.dryRun != null
  const served: RequestedSources[] = []
  for (const deps of services) {
    const found = await findServed(deps, options, observations)
    if (found !== null || services.length === 1) served.push(found ?? { deps, sources: [], leftOut: [] })
  }
  const [first] = served
  if (first === undefined) throw new Error('no service serves these sources')
  const { db, log, owner } = first.deps
  const token = randomUUID()
  const prepared = served.map(({ deps, sources, leftOut }) => ({
    deps,
    name: deps.serviceName ?? '',
    sources,
    leftOut: new Map(leftOut.map((entry) => [entry.source, entry])),
  }))
  const gathering = prepared.filter(
    (part) => partsBefore(part, prepared).length > 0 && !isAfterItself(part, prepared),
  )
  const inserted = {
    trigger,
    sources: [...new Set(served.flatMap(({ sources }) => sources.map((source) => source.name)))],
    options: {
      limit,
      budget,
      where,
      route,
      ...(isDryRun && { dry: isDryRun }),
      ...(mixed !== null && { money: { amount: mixed.amount, currency: mixed.currency } }),
    },
    owner,
    token,
    leaseMs: LEASE_MS,
    budgetName: options.budgetName ?? null,
    scopes: scopesOf(served.map(({ deps }) => deps)),
    gathering: gathering.map(({ deps }) => deps.service),
  }
  const budgeted = prepared.map((part) => ({
    ...part,
    service: part.deps.service,
    budget: budgetOf(part.deps, options),
  }))
  const id = await retryWhileUnavailable(
    async () => runs.insertRun(db, { ...inserted, bound: toRunBound(budgeted, await readOverruns(db)) }),
    startWait(first.deps, options),
  )
  log.info(
    { event: 'run_started', run: id, trigger, sources: inserted.sources, budget, dry: isDryRun },
    'run started',
  )
  const counters = new RunCounters()
  const parts = budgeted.map(({ deps, name, service, sources, leftOut, budget: own }) => ({
    ...createPart({ deps, name, id, service, sources, budget: own }, counters),
    leftOut,
    isGathering: inserted.gathering.includes(deps.service),
  }))
  return { id, token, trigger, parts, counters, startedAt, observations }
}

/** What a service may spend in a run. */
export const budgetOf = (
  { adapter, policy, serviceBudget }: Pick<RunDeps, 'adapter' | 'policy' | 'serviceBudget'>,
  options: Pick<StartRunOptions, 'budget' | 'mixed'>,
): RunBudget =>
  createBudget({ credits: adapter.credits, price: policy.price, own: serviceBudget ?? null }, options)

/** As in the middle of a run: Postgres was reached a moment ago. */
const startWait = ({ log }: Pick<RunDeps, 'log'>, { signal }: StartRunOptions) => ({
  giveUp: () => signal.aborted,
  onWait: logWait(log, { step: 'start' }),
})

/** Which of the requested sources a service serves; null: none. */
async function findServed(
  deps: RunDeps,
  options: StartRunOptions,
  observations: RunObservations,
): Promise<RequestedSources | null> {
  const whileAway = startWait(deps, options)
  const isServed = (name: string): boolean => deps.sources.has(name) || deps.brokenSources?.has(name) === true
  const requested = [...new Set(options.sources)]
  const served = deps.serviceName == null ? requested : requested.filter(isServed)
  if (served.length === 0 && requested.length > 0) return null
  const named = served.length === 0 ? [...deps.sources.keys()] : served
  const broken = listLeftOut(deps, served)
  // Also of those that are broken: what is paused is left out by will, and is no fault of the run.
  const names = [...new Set([...named, ...broken.map(({ source }) => source)])]
  const paused = await retryWhileUnavailable(() => pauses.filterPaused(deps.db, names), whileAway)
  for (const name of paused) observations.pausedSources.add(name)
  const sources = named.flatMap((name) => (paused.includes(name) ? [] : (deps.sources.get(name) ?? [])))
  // It may have been mended a moment ago.
  for (const source of sources.filter((source) => !isFit(source)))
    await retryWhileUnavailable(() => checkBreakage(deps, source), whileAway)
  const leftOut = listLeftOut(deps, served).filter(({ source }) => !paused.includes(source))
  return { deps, sources, leftOut }
}

export interface MaintenanceDeps extends Deps {
  /** Identifies this process; unique for each start. */
  readonly owner: string
}

/** What is done for a source as a whole works with, whichever services fill it. */
export type SourceDeps = TableDeps &
  Pick<MaintenanceDeps, 'sources' | 'brokenSources' | 'log' | 'now' | 'random' | 'owner'>

/** Handle of a run that makes no service calls. */
export interface MaintenanceRun {
  readonly id: number
  /** Runs one batch, repeated while Postgres is unavailable. `act` must be idempotent. */
  readonly attempt: <T>(act: () => Promise<T>) => Promise<T>
  /** Aborts on interruption, or when another process has declared the run dead. */
  readonly signal: AbortSignal
}

/**
 * Runs `act` as a leased run that makes no service calls (undo, remap): starts it, heartbeats, and records the
 * result. It is listed among the runs, and its changes can be undone.
 * @throws the error of `act`, after the run was stored as failed
 */
export async function runMaintenance<Report extends { readonly status: RunStatus }>(
  deps: Pick<MaintenanceDeps, 'db' | 'log' | 'owner'>,
  run: { readonly sources: readonly string[]; readonly options: Partial<StoredRunOptions> },
  signal: AbortSignal,
  act: (run: MaintenanceRun) => Promise<Report>,
): Promise<Report> {
  const { db, log, owner } = deps
  const token = randomUUID()
  const id = await runs.insertRun(db, {
    trigger: 'manual',
    sources: run.sources,
    options: { limit: null, budget: 0, where: null, route: 'auto', ...run.options },
    owner,
    token,
    leaseMs: LEASE_MS,
  })
  log.info({ event: 'run_started', run: id, sources: run.sources, ...run.options }, 'run started')
  const finished = new AbortController()
  const lost = new AbortController()
  const cancelled = new AbortController()
  let cancelledBy: string | null = null
  const beating = heartbeat(deps, id, token, finished.signal, (by) => {
    cancelledBy = by
    cancelled.abort()
  }).catch((error: unknown) => lost.abort(error))
  const onWait = logWait(log, { run: id })
  const stopping = AbortSignal.any([signal, lost.signal, cancelled.signal])
  const attempt: MaintenanceRun['attempt'] = (batch) =>
    retryWhileUnavailable(batch, { signal: stopping, onWait })
  const close = (
    state: Exclude<RunState, 'running'>,
    reason: string | null,
    totals: object,
  ): Promise<boolean> => attempt(() => runs.closeRun(db, id, token, { state, reason, totals }))
  try {
    const report = await act({ id, attempt, signal: stopping })
    lost.signal.throwIfAborted()
    const interrupted = report.status === 'interrupted'
    await close(
      interrupted ? Run.interrupted : Run.completed,
      interrupted ? describeInterruption(cancelledBy) : null,
      withoutValues(report),
    )
    log.info({ event: 'run_ended', run: id, status: report.status }, 'run ended')
    return report
  } catch (error) {
    const reason = describeError(error)
    // The error matters more than storing the end; another process finds the run dead.
    await close(Run.failed, reason, {}).catch(() => {})
    log.error({ event: 'run_failed', run: id, status: 'failed', reason }, 'run ended')
    throw error
  } finally {
    finished.abort()
    await beating
  }
}
