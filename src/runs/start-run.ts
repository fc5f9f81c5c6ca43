import { randomUUID } from 'node:crypto'
import type { RunSpec, Trigger } from '../domain/run.ts'
import {
  type ConfiguredBudget,
  type MixedBudget,
  resolveSourceBudgets,
  shareOfHighest,
  toLookupBudget,
  toUnits,
} from '../domain/spend.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { RunBudget } from '../pipeline/pick/budget.ts'
import type { PickContext } from '../pipeline/pick/pass.ts'
import type { Source } from '../sources/source-model.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as pauses from '../store/paused-sources.ts'
import * as runs from '../store/runs.ts'
import { RunObservations } from './finish.ts'
import { logWait } from './loop.ts'
import { checkBreakage, isFit, listLeftOut } from './source-health.ts'
import type { CallSetup } from './workers.ts'

export interface StartRunOptions extends RunSpec {
  readonly trigger: Trigger
  /** Shares the budget of all runs with this name: a resumed scheduled run continues with what is left. */
  readonly budgetName?: string | null
  /** The budget in money, where its lookups have several prices. */
  readonly mixed?: MixedBudget | null
  /** Requests lookups but writes nothing: the report shows what would be written, with this many rows as a sample. */
  readonly dryRun?: { readonly sample: number } | null
  /** One for each service: the first of the runs that this one is started with, null for that one. Absent: it is alone. */
  readonly group?: number | null
  /** Interrupts the run: nothing new starts, calls in flight finish, the state is saved. */
  readonly signal: AbortSignal
}

/** A run that is stored. */
export interface StartedRun extends PickContext {
  readonly token: string
  readonly trigger: Trigger
  /** Names of the requested sources. */
  readonly named: readonly string[]
  /** Those of them that are open and not paused. */
  readonly sources: readonly Source[]
  /** By `performance.now()`. */
  readonly startedAt: number
  readonly observations: RunObservations
}

/** Stores a run of the sources that are open and not paused. */
export async function startRun(
  deps: CallSetup & { readonly owner: string; readonly serviceBudget?: ConfiguredBudget | null },
  options: StartRunOptions,
): Promise<StartedRun> {
  const startedAt = performance.now()
  const { trigger, limit, budget, where, route } = options
  const observations = new RunObservations()
  const isDryRun = options.dryRun != null
  // As in the middle of a run: Postgres was reached a moment ago.
  const whileAway = { giveUp: () => options.signal.aborted, onWait: logWait(deps.log, { step: 'start' }) }
  const named = options.sources.length === 0 ? [...deps.sources.keys()] : [...new Set(options.sources)]
  const broken = listLeftOut(deps, options.sources)
  // Also of those that are broken: what is paused is left out by will, and is no fault of the run.
  const names = [...new Set([...named, ...broken.map(({ source }) => source)])]
  const paused = await retryWhileUnavailable(() => pauses.filterPaused(deps.db, names), whileAway)
  for (const name of paused) observations.pausedSources.add(name)
  const sources = named.flatMap((name) => (paused.includes(name) ? [] : (deps.sources.get(name) ?? [])))
  // It may have been mended a moment ago.
  for (const source of sources.filter((one) => !isFit(one)))
    await retryWhileUnavailable(() => checkBreakage(deps, source), whileAway)
  for (const one of listLeftOut(deps, options.sources))
    if (!paused.includes(one.source)) observations.leftOut.set(one.source, one)
  const token = randomUUID()
  const inserted = {
    trigger,
    sources: sources.map((source) => source.name),
    options: { limit, budget, where, route, ...(isDryRun && { dry: isDryRun }) },
    owner: deps.owner,
    token,
    leaseMs: LEASE_MS,
    budgetName: options.budgetName ?? null,
    scope: deps.elector.scope,
    service: deps.service,
    group: options.group ?? null,
  }
  const id = await retryWhileUnavailable(() => runs.insertRun(deps.db, inserted), whileAway)
  if (options.group === null) await retryWhileUnavailable(() => runs.beginGroup(deps.db, id), whileAway)
  deps.log.info(
    { event: 'run_started', run: id, trigger, sources: inserted.sources, budget, dry: isDryRun },
    'run started',
  )
  return {
    id,
    token,
    trigger,
    named,
    sources,
    startedAt,
    observations,
    budget: createBudget(deps, options, sources),
    isDryRun,
    service: deps.service,
  }
}

/** What a run may spend, and of it what its service may. */
function createBudget(
  { adapter: { credits }, policy: { price }, serviceBudget = null }: Parameters<typeof startRun>[0],
  { budget, mixed = null }: StartRunOptions,
  sources: readonly Source[],
): RunBudget {
  const limit = mixed === null ? budget : toUnits(mixed.amount, mixed)
  const ofSources = resolveSourceBudgets(
    sources.map(({ mapping }) => mapping),
    limit,
  )
  const own = toLookupBudget(serviceBudget, [price])
  const ownLookups = own === 'unlimited' ? null : own
  if (mixed === null) return new RunBudget(limit, ofSources, credits, ownLookups)
  const weights = credits.isFlat ? shareOfHighest(price, mixed) : null
  const ownLimit =
    serviceBudget !== null && typeof serviceBudget === 'object'
      ? toUnits(serviceBudget.amount, mixed)
      : ownLookups && ownLookups * Math.min(weights?.person ?? 1, weights?.company ?? 1)
  return new RunBudget(limit, ofSources, credits, ownLimit, { ...mixed, weights })
}
