import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import type { Deps } from '../pipeline/deps.ts'
import {
  createPass,
  KeyRangeScan,
  PAGE_SIZE,
  type PickContext,
  type PickOptions,
  type PickPass,
} from '../pipeline/pick/pass.ts'
import { pickPage } from '../pipeline/pick/pick.ts'
import { sampleKeys } from '../sources/sample-keys.ts'
import type { Source } from '../sources/source.ts'
import { readBudgetUsage } from '../store/budgets.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as pauses from '../store/paused-sources.ts'
import { awaitsAnswers } from '../store/run-progress.ts'
import { inTransaction, TableBusyError, withTableTimeouts } from '../store/transaction.ts'
import { cached } from '../util/cached.ts'
import { logWait } from './loop.ts'
import { type DeletedRowsReport, reconcileDeleted, restoreReturned } from './reconcile-deleted.ts'
import { isLeftOut, type LeftOutSource, unlessBroken } from './source-health.ts'

type PickDeps = Pick<Deps, 'db' | 'log' | 'policy' | 'service' | 'random' | 'adapter'>

export interface PickSourcesOptions extends PickOptions {
  readonly sources: readonly Source[]
  /** How long to wait for a locked table, or for credits to come back, in milliseconds. */
  readonly waitMs: number
  /** Called when rows wait for credits: what was picked so far must be requested, however little it is. */
  readonly onAwaitingCredits?: () => Promise<void>
  /** A user ends the run. If anything else does, such as a rejected key, its known rows are still compared with their tables. */
  readonly interrupted?: AbortSignal
}

/** What a run observes while it picks. */
export interface PickObservations {
  readonly pausedSources: Set<string>
  readonly unreadSources: Set<string>
  readonly sampledSources: Set<string>
  /** Of the sources that were read as a whole, by name. */
  readonly deletedRows: Map<string, DeletedRowsReport>
  /** By name: sources that are broken, and why. */
  readonly leftOut: Map<string, LeftOutSource>
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
  onPicked: (rows: number, mayBeAnswered: boolean) => void,
): Promise<void> {
  const onWait = logWait(deps.log, { step: 'pick' })
  const { budget } = run
  const passes: PickPass[] = []
  /** Of the sources that are read as a whole: deleted rows that are back. */
  const restoredRows = new Map<PickPass, number>()
  const [picked] = await Promise.allSettled([pickAll()])
  // Also where a pass has failed: the data of deleted rows must not stay until the cause is repaired.
  const [reconciled] = await Promise.allSettled([reconcileAll(options.interrupted ?? signal)])
  for (const one of [picked, reconciled]) if (one.status === 'rejected') throw one.reason

  async function pickAll(): Promise<void> {
    for (const [n, source] of options.sources.entries())
      await leaveOutBroken(source, () => openSharedPass(source, n))
    budget.endShares()
    for (const pass of passes)
      await leaveOutBroken(pass.source, async () => {
        await pickSource(pass)
        if (run.isDryRun && !pass.scan.isDone) observations.sampledSources.add(pass.source.name)
      })
  }

  /** A source that is broken, or breaks meanwhile, is left out, and the others are picked. */
  async function leaveOutBroken(source: Source, act: () => Promise<void>): Promise<void> {
    if (isLeftOut(source, observations.leftOut)) return
    if ((await unlessBroken(deps, source, act)) === null) isLeftOut(source, observations.leftOut)
  }

  async function openSharedPass(source: Source, n: number): Promise<void> {
    const pass = await retryWhileUnavailable(() => openPass(deps, run, source, options), { signal, onWait })
    pass.awaitsCredits = !budget.credits.isFlat && budget.limit !== null && !run.isDryRun
    passes.push(pass)
    if (isFullPass(run, pass, options) && !observations.pausedSources.has(source.name)) {
      const restore = (): Promise<number> => restoreReturned(deps, source, signal)
      restoredRows.set(pass, await retryWhileUnavailable(restore, { signal, onWait }))
    }
    if (options.sources.length === 1 || budget.limit === null || budget.limit === 0) return
    const spent = await retryWhileUnavailable(() => readBudgetUsage(deps.db, run.id), { signal, onWait })
    budget.startShare(spent.lookups, options.sources.length - n)
    await pickSource(pass)
  }

  async function reconcileAll(interrupted: AbortSignal): Promise<void> {
    for (const [pass, restored] of restoredRows) {
      if (interrupted.aborted) break
      const counted = { known: pass.known, restored }
      const reconcile = (): Promise<DeletedRowsReport> =>
        reconcileDeleted(deps, pass.source, counted, interrupted)
      await leaveOutBroken(pass.source, async () => {
        const report = await retryWhileUnavailable(reconcile, { signal: interrupted, onWait })
        observations.deletedRows.set(pass.source.name, report)
      })
    }
  }

  async function pickSource(pass: PickPass): Promise<void> {
    const { name } = pass.source
    const checkPaused = cached(() => isPaused(deps, pass.source))
    const isLeft = (): boolean =>
      observations.pausedSources.has(name) ||
      observations.unreadSources.has(name) ||
      isLeftOut(pass.source, observations.leftOut) ||
      signal.aborted
    let readAt = performance.now()
    let isAtBudget = false
    let mayBeAnswered = false
    pass.isShareUsedUp = false
    while (pass.phase !== 'done' && !pass.isShareUsedUp && !isLeft()) {
      if (await retryWhileUnavailable(checkPaused, { signal, onWait })) {
        observations.pausedSources.add(name)
        break
      }
      const readPage = async (): Promise<number | null> => {
        try {
          const page = await pickPage(deps, run, pass, options)
          isAtBudget = page.isAtBudget === true
          // With a new lookup for each row, none has an answer yet.
          mayBeAnswered = page.picked > page.claimed
          return page.picked
        } catch (error) {
          if (!(error instanceof TableBusyError)) throw error
          // To be waited for, as for a Postgres that is away.
          if (error.reason === 'exhausted') throw error.cause
          return null
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
        onPicked(picked, mayBeAnswered)
        if (isAtBudget) pass.awaitsCredits = await waitForCredits(deps, run, pass, options, signal)
      }
    }
  }
}

/** How often the answers to a run's lookups are looked for while its budget is reserved for them. */
const CREDITS_POLL_MS = 100

/**
 * Waits until lookups have cost less than was charged for them, so that a part of the budget worth a page can be spent again.
 * @returns false if nothing more comes back, or not in time
 */
async function waitForCredits(
  deps: PickDeps,
  { id, budget }: PickContext,
  { source }: PickPass,
  { waitMs, onAwaitingCredits }: PickSourcesOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const retryOptions = { signal, onWait: logWait(deps.log, { step: 'pick' }) }
  const charge = Math.max(...LOOKUP_KINDS[source.mapping.kind].map((kind) => budget.charge({ kind })))
  const enough = Math.max(charge, (budget.limit ?? 0) / 20)
  await onAwaitingCredits?.()
  let left = -1
  let changedAt = performance.now()
  while (!signal.aborted) {
    // In this order: what was answered between the two is in the second.
    const isAwaiting = await retryWhileUnavailable(() => awaitsAnswers(deps.db, id), retryOptions)
    const usage = await retryWhileUnavailable(() => readBudgetUsage(deps.db, id), retryOptions)
    const nowLeft = budget.remaining(usage, source.name)
    if (nowLeft >= enough) return true
    if (nowLeft !== left) changedAt = performance.now()
    left = nowLeft
    if (!isAwaiting || performance.now() - changedAt > waitMs) return left >= charge
    await sleep(CREDITS_POLL_MS, undefined, { signal }).catch(() => {})
  }
  return false
}

/** It reads the whole source: only then is it worth comparing all known rows with the table. */
const isFullPass = (run: PickContext, pass: PickPass, { limit, where }: PickOptions): boolean =>
  !run.isDryRun && limit === null && where === null && pass.changedSince === null

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
    log.debug(
      { event: 'sample_failed', source: source.name, reason: describeError(error) },
      'the table cannot be sampled',
    )
    return []
  }
}

/** TABLESAMPLE takes neither views nor foreign tables. */
const isNotSampled = (error: unknown): boolean =>
  ['42809', '0A000'].includes((error as { code?: string } | null)?.code ?? '')
