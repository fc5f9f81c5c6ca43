import { setTimeout as sleep } from 'node:timers/promises'
import type { Trigger } from '../domain/run.ts'
import type { Deps } from '../pipeline/deps.ts'
import { adoptAbandonedLookups } from '../pipeline/pick/claim.ts'
import { repick as again, type PickContext } from '../pipeline/pick/pick.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import type { Source } from '../sources/source.ts'
import { isTransient } from '../store/connectivity.ts'
import type { KnownCircuit } from '../store/rate-limits.ts'
import * as waiting from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import { isConflict, TableBusyError } from '../store/transaction.ts'
import { decideCompletion, isOutageTooLong } from './completion.ts'
import type { RunCounters, RunProgress } from './counters.ts'

const POLL_INTERVAL_MS = 200
/** The full check reads all waiting rows, so it runs rarely and only without progress. */
const FULL_CHECK_MS = 1_000
/** Spend at most 1/COUNT_COST_FACTOR of the time on counting waiting rows. */
const COUNT_COST_FACTOR = 20

export interface MonitoredRun extends PickContext, waiting.DonePolicy {
  readonly trigger: Trigger
  readonly sources: readonly Source[]
  /** Maximum rows of each source. */
  readonly limit: number | null
  readonly counters: RunCounters
  readonly waitMs: number
  readonly startedAt: number
  readonly isPicking: () => boolean
  readonly rate: () => RateStatus | null
  /** Finds the open circuit that the leader has stored. */
  readonly findOpenCircuit: () => Promise<KnownCircuit | null>
  /** There may be lookups to request again. */
  readonly wakeCalls: () => void
  readonly onProgress: ((progress: RunProgress) => void) | undefined
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
  /** How long the service had been down; null: it was not. Milliseconds. */
  outageMs: number | null
}

interface MonitorState extends Leftover {
  settled: number
  waiting: number
  jobsWaiting: number
}

/**
 * Monitors a run until it is complete, reports progress, and takes over from dead runs.
 * @returns what it leaves to others
 */
export async function monitorRun(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now'>,
  run: MonitoredRun,
  signal: AbortSignal,
): Promise<Leftover> {
  const told: MonitorState & { countAt: number } = {
    settled: 0,
    waiting: 0,
    jobsWaiting: 0,
    others: 0,
    later: 0,
    laterAt: null,
    locked: 0,
    outageMs: null,
    countAt: Number.NEGATIVE_INFINITY,
  }
  while (!signal.aborted) {
    try {
      const began = performance.now()
      if (began >= told.countAt) {
        await countFinished(deps, run, told)
        told.jobsWaiting = await waiting.countAwaitedJobs(deps.db, run.id)
        const tookMs = performance.now() - began
        told.countAt = began + Math.max(FULL_CHECK_MS, COUNT_COST_FACTOR * tookMs)
      }
      reportProgress(run, told)
      if (!run.isPicking() && (await checkCompletion(deps, run, told, signal))) {
        await countFinished(deps, run, told)
        reportProgress(run, told)
        return told
      }
    } catch (error) {
      if (error instanceof TableBusyError) {
        // Requeued rows wait behind a locked table just as rows to be written do.
        const idleMs = performance.now() - run.counters.lastProgressAt
        if (idleMs >= Math.min(run.waitMs, deps.policy.leftWaitMs)) {
          await countFinished(deps, run, told)
          reportProgress(run, told)
          return { ...told, locked: told.waiting }
        }
      } else if (!isTransient(error) && !isConflict(error)) throw error
    }
    await sleep(POLL_INTERVAL_MS, undefined, { signal }).catch(() => {})
  }
  return told
}

/** Use the number picked before the count: rows picked after it would count as finished. */
async function countFinished(
  deps: Pick<Deps, 'db'>,
  run: MonitoredRun,
  told: { settled: number; waiting: number },
): Promise<void> {
  const { picked } = run.counters
  told.waiting = await waiting.countWaitingRows(deps.db, run.id, run)
  told.settled = Math.max(0, picked - told.waiting)
}

async function checkCompletion(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now'>,
  run: MonitoredRun,
  told: Leftover,
  signal: AbortSignal,
): Promise<boolean> {
  const idleMs = performance.now() - run.counters.lastProgressAt
  const names = run.sources.map((source) => source.name)
  // Rows that the budget cannot pay stay requeued, and are checked rarely.
  if (run.budget.rowsAwaitingBudget === 0 && (await waiting.hasRequeuedRows(deps.db, run.id, names))) {
    await repickSources(deps, run, { leftBehind: false, signal })
    return false
  }
  const mine = await waiting.hasWaitingRows(deps.db, run.id)
  if (mine && idleMs < FULL_CHECK_MS && run.waitMs > 0) return false
  const alive = await runs.listRunning(deps.db)
  const live = alive.map((one) => one.id)
  // Live sync never ends by itself, and another process takes over when it dies. A scheduled run has a successor, and
  // need not stay for what a long backfill may abandon. A run of another service does other work.
  const unawaited = alive
    .filter((one) => one.options.follow === true || run.trigger === 'schedule' || one.service !== run.service)
    .map((one) => one.id)
  // Otherwise the write-back does it.
  if (run.isDryRun) await waiting.advanceCascade(deps.db, run.id, run.cascading)
  let waits = await waiting.readWaitingCounts(deps.db, run, names, live, unawaited)
  if (await takeOver(deps, run, live, waits, signal))
    waits = await waiting.readWaitingCounts(deps.db, run, names, live, unawaited)
  told.others = waits.others
  told.later = waits.later
  told.laterAt = waits.laterAt
  told.locked = waits.locked
  told.outageMs = waits.mine === 0 ? null : await outageDurationMs(deps, run)
  const unpayable = waits.abandoned + run.budget.rowsAwaitingBudget
  const end = decideCompletion({
    ...waits,
    ownWaiting: waits.mine,
    awaitingDelivery: waits.forDelivery,
    others: waits.awaited,
    unpayable,
    isDown: told.outageMs !== null,
    idleMs,
    waitMs: run.waitMs,
    leftWaitMs: deps.policy.leftWaitMs,
    picking: false,
  })
  if (end === 'continue') await sleep(FULL_CHECK_MS - POLL_INTERVAL_MS, undefined, { signal }).catch(() => {})
  // Freed by a job that expired after these rows were picked: the budget had not included them.
  else run.budget.setPendingSkips('abandoned', waits.abandoned)
  return end !== 'continue'
}

/** How long the service has been down, if that is too long to wait for; else null. */
async function outageDurationMs(deps: Pick<Deps, 'db'>, run: MonitoredRun): Promise<number | null> {
  const outage = await run.findOpenCircuit()
  if (outage === null) return null
  const lastedMs = Math.min(outage.lastedMs, performance.now() - run.startedAt)
  return isOutageTooLong(lastedMs, await waiting.hasAnsweredLookups(deps.db, run.id)) ? outage.lastedMs : null
}

/** @returns whether anything was taken over */
async function takeOver(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now'>,
  run: MonitoredRun,
  live: readonly number[],
  waits: waiting.WaitingCounts,
  signal: AbortSignal,
): Promise<boolean> {
  const adopted = waits.abandoned > 0 ? await adoptAbandonedLookups(deps.db, run, live) : 0
  const picked = await repickSources(deps, run, { leftBehind: true, signal })
  if (adopted > 0 && !picked) markProgress(run)
  return picked || adopted > 0
}

/** @returns whether any row was picked */
async function repickSources(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now'>,
  run: MonitoredRun,
  options: { readonly leftBehind: boolean; readonly signal: AbortSignal },
): Promise<boolean> {
  let any = false
  for (const source of run.sources) {
    const did = await again(deps, run, source, { ...options, limit: run.limit })
    run.counters.picked += did.picked
    any ||= did.picked + did.repicked > 0
  }
  if (any) markProgress(run)
  return any
}

function markProgress(run: MonitoredRun): void {
  run.counters.touch()
  run.wakeCalls()
}

function reportProgress(run: MonitoredRun, told: MonitorState): void {
  if (!run.onProgress) return
  const rate = run.rate()
  run.onProgress({
    picked: run.counters.picked,
    finished: told.settled,
    requested: run.counters.requested,
    submitted: run.counters.submitted,
    jobsWaiting: told.jobsWaiting,
    picking: run.isPicking(),
    written: run.counters.written,
    rate,
    stallReason: describeStall(run, told, rate),
    elapsedMs: performance.now() - run.startedAt,
  })
}

function describeStall(run: MonitoredRun, told: MonitorState, rate: RateStatus | null): string | null {
  if (rate?.stallReason) return rate.stallReason
  if (performance.now() - run.counters.lastProgressAt < 2 * FULL_CHECK_MS) return null
  if (told.locked > 0)
    return told.locked === 1
      ? 'another transaction has locked a row'
      : `other transactions have locked ${told.locked} rows`
  if (told.waiting > 0 && told.jobsWaiting > 0)
    return told.jobsWaiting === 1
      ? 'a job waits for its delivery'
      : `${told.jobsWaiting} jobs wait for their delivery`
  if (told.waiting === 0 && told.others > 0)
    return `another run works on ${told.others} rows of the same sources`
  if (rate === null || rate.isRemote) return 'another process calls the service'
  return null
}
