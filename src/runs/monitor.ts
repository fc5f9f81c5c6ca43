import type { CircuitCause, RateStatus } from '../domain/rate-status.ts'
import type { Trigger } from '../domain/run.ts'
import type { Deps } from '../pipeline/deps.ts'
import { adoptAbandonedLookups } from '../pipeline/pick/claim.ts'
import type { PickContext } from '../pipeline/pick/pass.ts'
import { repick } from '../pipeline/pick/pick.ts'
import type { Source } from '../sources/source-model.ts'
import { isTransient } from '../store/connectivity.ts'
import type { KnownCircuit } from '../store/rate-limits.ts'
import * as waiting from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import { listSlowedWrites, type SlowedWrites } from '../store/write-pace.ts'
import { isConflict, TableBusyError } from '../store/transaction.ts'
import { decideCompletion, FULL_CHECK_MS, isOutageTooLong, nextReadAt } from './completion.ts'
import type { RunCounters, RunProgress } from './counters.ts'
import { isFit, unlessBroken } from './source-health.ts'
import type { PickAlone } from './pick-alone.ts'
import { describeStall } from './stall.ts'

/** How often progress is reported, and a run without progress in this process is checked. */
const POLL_INTERVAL_MS = 200

interface MonitoredRun extends PickContext, waiting.DonePolicy {
  readonly trigger: Trigger
  readonly sources: readonly Source[]
  /** Maximum rows of each source. */
  readonly limit: number | null
  readonly counters: RunCounters
  readonly waitMs: number
  readonly startedAt: number
  readonly isPicking: () => boolean
  readonly pickAlone: PickAlone
  /** Since when no other service works: an outage before that has cost no time. */
  readonly aloneSince: () => number
  /**
   * Called before each check.
   * @returns whether it may end, by whether its rows are done or to be left; null: not looked at again
   */
  readonly beginCheck: () => (isDone: boolean | null) => boolean
  readonly rate: () => RateStatus | null
  /** What Postgres refuses to this process, in words; null: nothing. */
  readonly describeOutage: () => string | null
  /** Finds the open circuit that the leader has stored. */
  readonly findOpenCircuit: () => Promise<KnownCircuit | null>
  /** There may be lookups to request again. */
  readonly wakeCalls: () => void
  readonly onProgress: ((progress: RunProgress, waiting: number) => void) | undefined
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
  /** The service is down; null: it is not. */
  outage: Outage | null
}

/** An outage of the service that a run has met. */
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

interface MonitorState extends Leftover {
  finished: number
  waiting: number
  jobsWaiting: waiting.AwaitedJobs
  slowedWrites: readonly SlowedWrites[]
  /** When the full check is made again, and of the last one: whether rows of the run waited, and whether it was done. */
  fullCheckAt: number
  hadWaiting: boolean
  wasDone: boolean
}

/**
 * Monitors a run until it is complete, reports progress, and takes over from dead runs.
 * @returns what it leaves to others
 */
export async function monitorRun(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  run: MonitoredRun,
  signal: AbortSignal,
): Promise<Leftover> {
  const state: MonitorState & { countAt: number } = {
    finished: 0,
    waiting: 0,
    jobsWaiting: { all: 0, finished: 0 },
    slowedWrites: [],
    others: 0,
    later: 0,
    laterAt: null,
    locked: 0,
    outage: null,
    fullCheckAt: Number.NEGATIVE_INFINITY,
    hadWaiting: false,
    wasDone: false,
    countAt: Number.NEGATIVE_INFINITY,
  }
  const maybeComplete = run.counters.maybeComplete.listen()
  let isWoken = true
  let lastCheckAt = Number.NEGATIVE_INFINITY
  while (!signal.aborted) {
    try {
      const now = performance.now()
      // No one else reads it.
      if (run.onProgress && now >= state.countAt) {
        await countFinished(deps, run, state)
        const slow = run.sources.filter(({ mapping }) => mapping.writes !== null)
        state.slowedWrites =
          slow.length === 0
            ? []
            : await listSlowedWrites(
                deps.db,
                slow.map(({ name }) => name),
              )
        state.jobsWaiting = await waiting.countAwaitedJobs(deps.db, run.id)
        state.countAt = nextReadAt(now, performance.now())
      }
      reportProgress(run, state)
      // While calls are answered in this process it is not complete, and says when it may be.
      const isIdle = now - run.counters.lastProgressAt >= POLL_INTERVAL_MS
      if (!run.isPicking() && (isWoken || isIdle || now - lastCheckAt >= FULL_CHECK_MS)) {
        lastCheckAt = now
        const mayEnd = run.beginCheck()
        if (mayEnd(await checkCompletion(deps, run, state, signal))) {
          if (run.onProgress) await countFinished(deps, run, state)
          reportProgress(run, state)
          return state
        }
      }
    } catch (error) {
      if (error instanceof TableBusyError) {
        // Requeued rows wait behind a locked table just as rows to be written do.
        const idleMs = performance.now() - run.counters.lastProgressAt
        if (idleMs >= Math.min(run.waitMs, deps.policy.lockedWaitMs)) {
          await countFinished(deps, run, state)
          reportProgress(run, state)
          return { ...state, locked: state.waiting }
        }
      } else if (!isTransient(error) && !isConflict(error)) throw error
      reportProgress(run, state)
    }
    isWoken = await maybeComplete.wait(POLL_INTERVAL_MS, signal)
  }
  return state
}

/** Use the number picked before the count: rows picked after it would count as finished. */
async function countFinished(
  deps: Pick<Deps, 'db'>,
  run: MonitoredRun,
  state: { finished: number; waiting: number },
): Promise<void> {
  const { picked } = run.counters
  state.waiting = await waiting.countWaitingRows(deps.db, run.id, run)
  state.finished = Math.max(0, picked - state.waiting)
}

async function checkCompletion(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  run: MonitoredRun,
  state: MonitorState,
  signal: AbortSignal,
): Promise<boolean | null> {
  const startedAt = performance.now()
  const idleMs = startedAt - run.counters.lastProgressAt
  const names = run.sources.map((source) => source.name)
  const broken = run.sources.filter((source) => !isFit(source)).map((source) => source.name)
  const fit = names.filter((name) => !broken.includes(name))
  const { hasWaiting, hasRequeued } = await waiting.findWaitingRows(deps.db, run.id, fit)
  // Rows that the budget cannot pay stay requeued, and are checked rarely.
  if (run.budget.rowsAwaitingBudget === 0 && hasRequeued) {
    await repickSources(deps, run, { includeAbandoned: false, signal })
    return false
  }
  if (hasWaiting && idleMs < FULL_CHECK_MS && run.waitMs > 0) return false
  // Without rows it is done as long as it was, which runs that await each other need not read again.
  if (startedAt < state.fullCheckAt && hasWaiting === state.hadWaiting)
    return state.wasDone && !hasWaiting ? true : null
  const running = await runs.listRunning(deps.db)
  const runningIds = running.map((one) => one.id)
  // Live sync never ends by itself, and another process takes over when it dies. A scheduled run has a successor, and
  // need not stay for what a long backfill may abandon. A run of another service does other work.
  const unawaited = running
    .filter((one) => one.options.follow === true || run.trigger === 'schedule' || one.service !== run.service)
    .map((one) => one.id)
  // Otherwise the write-back does it.
  if (run.isDryRun) await waiting.advanceCascade(deps.db, run.id, run.cascading)
  const group = running.find((one) => one.id === run.id)?.group ?? null
  const siblings = running.flatMap((one) => (group !== null && one.group === group ? one.id : []))
  const readCounts = () =>
    waiting.readWaitingCounts(deps.db, run, names, runningIds, broken, unawaited, siblings)
  const before = await readCounts()
  const hasTaken = await takeOver(deps, run, runningIds, before, signal)
  // Some of it may be handed on already: the others look again.
  if (hasTaken && group !== null) return false
  const counts = hasTaken ? await readCounts() : before
  // What a dead run had leased became free meanwhile. The next check takes it over: only what is left then is beyond the budget.
  if (before.abandoned === 0 && counts.abandoned > 0) return false
  state.fullCheckAt = nextReadAt(startedAt, performance.now())
  state.hadWaiting = hasWaiting
  const { others, later, laterAt, locked } = counts
  Object.assign(state, { others, later, laterAt, locked })
  state.outage = counts.mine === 0 ? null : await findOutage(deps, run, counts.mine)
  // As at the end of a budget: what is paid for is awaited, and the rest is left.
  const isOutOfCredits = state.outage?.cause === 'out_of_credits'
  const completion = decideCompletion({
    ...counts,
    ownWaiting: counts.mine - counts.broken,
    awaitingDelivery: counts.forDelivery,
    others: counts.awaited,
    unpayable: isOutOfCredits ? counts.forCall : counts.abandoned + run.budget.rowsAwaitingBudget,
    later: isOutOfCredits ? 0 : counts.later,
    isDown: state.outage?.isTooLong ?? false,
    idleMs,
    waitMs: run.waitMs,
    lockedWaitMs: deps.policy.lockedWaitMs,
    picking: false,
  })
  // Freed by a job that expired after these rows were picked: the budget had not included them.
  if (completion !== 'continue') run.budget.setPendingSkips('abandoned', counts.abandoned)
  state.wasDone = completion !== 'continue'
  return state.wasDone
}

async function findOutage(
  deps: Pick<Deps, 'db'>,
  run: MonitoredRun,
  waitingRows: number,
): Promise<Outage | null> {
  const circuit = await run.findOpenCircuit()
  if (circuit === null) return null
  const { scope, openMs, reason, cause } = circuit
  const runMs = performance.now() - run.startedAt
  // For a run that began after the last refusal a call finds out anew.
  if (cause === 'out_of_credits' && circuit.backoffMs - circuit.probeInMs > runMs) return null
  const wasAnswered = await waiting.hasAnsweredLookups(deps.db, run.id)
  const waitedMs = performance.now() - run.aloneSince()
  const isTooLong = cause !== 'out_of_credits' && isOutageTooLong(Math.min(openMs, waitedMs), wasAnswered)
  return { scope, ms: openMs, reason, cause, wasAnswered, waiting: waitingRows, isTooLong }
}

/** @returns whether anything was taken over */
async function takeOver(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  run: MonitoredRun,
  runningIds: readonly number[],
  counts: waiting.WaitingCounts,
  signal: AbortSignal,
): Promise<boolean> {
  const adoptedCount = counts.abandoned > 0 ? await adoptAbandonedLookups(deps.db, run, runningIds) : 0
  const picked = await repickSources(deps, run, { includeAbandoned: true, signal })
  if (adoptedCount > 0 && !picked) markProgress(run)
  return picked || adoptedCount > 0
}

/** @returns whether any row was picked */
async function repickSources(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  run: MonitoredRun,
  options: { readonly includeAbandoned: boolean; readonly signal: AbortSignal },
): Promise<boolean> {
  let hasPicked = false
  for (const source of run.sources) {
    const pick = () => repick(deps, run, source, { ...options, limit: run.limit })
    const result = await run.pickAlone(() => unlessBroken(deps, source, pick))
    if (result === null) continue
    run.counters.picked += result.picked
    hasPicked ||= result.picked + result.repicked > 0
  }
  if (hasPicked) markProgress(run)
  return hasPicked
}

function markProgress(run: MonitoredRun): void {
  run.counters.touch()
  run.wakeCalls()
}

function reportProgress(run: MonitoredRun, state: MonitorState): void {
  if (!run.onProgress) return
  const rate = run.rate()
  run.onProgress(
    {
      picked: run.counters.picked,
      finished: state.finished,
      requested: run.counters.requested,
      submitted: run.counters.submitted,
      jobsWaiting: state.jobsWaiting.all,
      picking: run.isPicking(),
      written: run.counters.written,
      rate,
      stallReason: describeStall({
        ...state,
        databaseOutage: run.describeOutage(),
        rate,
        idleMs: performance.now() - run.counters.lastProgressAt,
      }),
      elapsedMs: performance.now() - run.startedAt,
    },
    state.waiting,
  )
}
