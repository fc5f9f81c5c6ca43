import { setTimeout as sleep } from 'node:timers/promises'
import type { Deps } from '../pipeline/deps.ts'
import {
  createPass,
  KeyRangeScan,
  PAGE_SIZE,
  type PickOptions,
  type PickPass,
} from '../pipeline/pick/pass.ts'
import { pickPage, type PickContext } from '../pipeline/pick/pick.ts'
import { sampleKeys } from '../sources/sample-keys.ts'
import type { Source } from '../sources/source.ts'
import { readBudgetUsage } from '../store/budgets.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as pauses from '../store/paused-sources.ts'
import { inTransaction, TableBusyError, withTableTimeouts } from '../store/transaction.ts'
import { cached } from '../util/cached.ts'
import { warnOfWait } from './loop.ts'

type PickDeps = Pick<Deps, 'db' | 'log' | 'policy' | 'service' | 'random'>

export interface PickSourcesOptions extends PickOptions {
  readonly sources: readonly Source[]
  /** How long to wait for a locked table, in milliseconds. */
  readonly waitMs: number
}

/** What a run observes while it picks. */
export interface PickObservations {
  readonly pausedSources: Set<string>
  readonly unreadSources: Set<string>
  readonly sampledSources: Set<string>
}

/** Poll interval for a locked table. */
const LOCKED_TABLE_POLL_MS = 1_000

/**
 * Picks each source to its end, unless it is paused, or its table stays locked for longer than the run may wait. Several
 * sources share the budget: each first gets an even part, and then, in their order, what the others have left.
 */
export async function pickSources(
  deps: PickDeps,
  run: PickContext,
  options: PickSourcesOptions,
  signal: AbortSignal,
  observations: PickObservations,
  onPicked: (rows: number) => void,
): Promise<void> {
  const onWait = warnOfWait(deps.log, { step: 'pick' })
  const { budget } = run
  const passes: PickPass[] = []
  for (const [n, source] of options.sources.entries()) {
    const pass = await retryWhileUnavailable(() => openPass(deps, run, source, options), { signal, onWait })
    passes.push(pass)
    if (options.sources.length === 1 || budget.limit === null || budget.limit === 0) continue
    const spent = await retryWhileUnavailable(() => readBudgetUsage(deps.db, run.id), { signal, onWait })
    budget.startShare(spent.lookups, options.sources.length - n)
    await pickSource(pass)
  }
  budget.endShares()
  for (const pass of passes) {
    await pickSource(pass)
    if (run.isDryRun && !pass.scan.isDone) observations.sampledSources.add(pass.source.name)
  }

  async function pickSource(pass: PickPass): Promise<void> {
    const { name } = pass.source
    const checkPaused = cached(() => isPaused(deps, pass.source))
    const isLeft = (): boolean =>
      observations.pausedSources.has(name) || observations.unreadSources.has(name) || signal.aborted
    let readAt = performance.now()
    pass.isShareUsedUp = false
    while (pass.phase !== 'done' && !pass.isShareUsedUp && !isLeft()) {
      if (await retryWhileUnavailable(checkPaused, { signal, onWait })) {
        observations.pausedSources.add(name)
        break
      }
      const readPage = async (): Promise<number | null> => {
        try {
          return (await pickPage(deps, run, pass, options)).picked
        } catch (error) {
          if (error instanceof TableBusyError) return null
          throw error
        }
      }
      const picked = await retryWhileUnavailable(readPage, { signal, onWait })
      if (picked === null && performance.now() - readAt > options.waitMs) {
        observations.unreadSources.add(name)
        break
      }
      if (picked === null) await sleep(LOCKED_TABLE_POLL_MS, undefined, { signal }).catch(() => {})
      else {
        readAt = performance.now()
        onPicked(picked)
      }
    }
  }
}

const isPaused = async ({ db }: PickDeps, source: Source): Promise<boolean> =>
  (await pauses.filterPaused(db, [source.name])).length > 0

/** Places at which a dry run starts to read a table. */
const SAMPLE_PLACES = 50

/** Opens a pass. A dry run that reads only a part of its source reads it from random places. */
async function openPass(
  deps: PickDeps,
  run: PickContext,
  source: Source,
  options: PickSourcesOptions,
): Promise<PickPass> {
  const rows = Math.min(
    options.limit ?? Number.POSITIVE_INFINITY,
    run.budget.limit || Number.POSITIVE_INFINITY,
  )
  if (!run.isDryRun || rows === Number.POSITIVE_INFINITY) return createPass(deps, source, options)
  const places = await listRandomPlaces(deps, source, Math.min(SAMPLE_PLACES, rows))
  const pageRows = Math.ceil(rows / (places.length + 1))
  return createPass(
    deps,
    source,
    options,
    new KeyRangeScan(places, Math.min(PAGE_SIZE, pageRows), deps.random),
  )
}

/** Empty where the table cannot be sampled: it is then read in key order. */
async function listRandomPlaces(
  { db, log, policy, random }: PickDeps,
  source: Source,
  count: number,
): Promise<readonly string[]> {
  try {
    return await inTransaction(db, (tx) =>
      withTableTimeouts(tx, policy.sourceTimeoutMs, () => sampleKeys(tx, source, count, random)),
    )
  } catch (error) {
    if (!(error instanceof TableBusyError) && !isNotSampled(error)) throw error
    log.debug({ source: source.name, reason: (error as Error).message }, 'the table cannot be sampled')
    return []
  }
}

/** TABLESAMPLE takes neither views nor foreign tables. */
const isNotSampled = (error: unknown): boolean =>
  ['42809', '0A000'].includes((error as { code?: string } | null)?.code ?? '')
