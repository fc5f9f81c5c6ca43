import { randomUUID } from 'node:crypto'
import type { RunSpec, Trigger } from '../domain/run.ts'
import type { MixedBudget } from '../domain/spend.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { createBudget, type RunBudget, toRunBound } from '../pipeline/pick/budget.ts'
import type { Source } from '../sources/source-model.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as pauses from '../store/source-state.ts'
import * as runs from '../store/runs.ts'
import { readOverruns } from '../store/spend.ts'
import { RunCounters } from './counters.ts'
import { logWait } from './loop.ts'
import {
  createPart,
  RunObservations,
  isAfterItself,
  partsBefore,
  type RunDeps,
  type ServicePart,
  scopesOf,
} from './run-part.ts'
import { checkBreakage, isFit, type LeftOutSource, listLeftOut } from './source-health.ts'

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
interface ServedSources {
  readonly deps: RunDeps
  readonly sources: readonly Source[]
  readonly leftOut: readonly LeftOutSource[]
}

/** Stores a run of the sources that are open and not paused. @param services in their order, one at least */
export async function startRun(services: readonly RunDeps[], options: StartRunOptions): Promise<StartedRun> {
  const startedAt = performance.now()
  const { trigger, limit, budget, where, route } = options
  const observations = new RunObservations()
  const isDryRun = options.dryRun != null
  const served: ServedSources[] = []
  for (const deps of services) {
    const one = await findServed(deps, options, observations)
    if (one !== null || services.length === 1) served.push(one ?? { deps, sources: [], leftOut: [] })
  }
  const [first] = served
  if (first === undefined) throw new Error('no service serves these sources')
  const { db, log, owner } = first.deps
  const token = randomUUID()
  const turns = served.map(({ deps, sources, leftOut }) => ({
    deps,
    name: deps.serviceName ?? '',
    sources,
    leftOut: new Map(leftOut.map((one) => [one.source, one])),
  }))
  const gathering = turns.filter((turn) => partsBefore(turn, turns).length > 0 && !isAfterItself(turn, turns))
  const inserted = {
    trigger,
    sources: [...new Set(served.flatMap(({ sources }) => sources.map((source) => source.name)))],
    options: { limit, budget, where, route, ...(isDryRun && { dry: isDryRun }) },
    owner,
    token,
    leaseMs: LEASE_MS,
    budgetName: options.budgetName ?? null,
    scopes: scopesOf(served.map(({ deps }) => deps)),
    gathering: gathering.map(({ deps }) => deps.service),
  }
  const budgeted = turns.map((turn) => ({
    ...turn,
    service: turn.deps.service,
    budget: budgetOf(turn, options),
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
  {
    deps,
    sources,
  }: {
    readonly deps: Pick<RunDeps, 'adapter' | 'policy' | 'serviceBudget'>
    readonly sources: readonly Source[]
  },
  options: Pick<StartRunOptions, 'budget' | 'mixed'>,
): RunBudget =>
  createBudget(
    { credits: deps.adapter.credits, price: deps.policy.price, own: deps.serviceBudget ?? null },
    options,
    sources.map(({ mapping }) => mapping),
  )

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
): Promise<ServedSources | null> {
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
  for (const source of sources.filter((one) => !isFit(one)))
    await retryWhileUnavailable(() => checkBreakage(deps, source), whileAway)
  const leftOut = listLeftOut(deps, served).filter(({ source }) => !paused.includes(source))
  return { deps, sources, leftOut }
}
