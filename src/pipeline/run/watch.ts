import { setTimeout as sleep } from 'node:timers/promises'
import type { Trigger } from '../../domain/run.ts'
import type { RateState } from '../../service/limiter.ts'
import type { Source } from '../../sources/source.ts'
import { isConflict, TableBusy } from '../../store/conflict.ts'
import { isOutage } from '../../store/outage.ts'
import type { KnownOutage } from '../../store/outages.ts'
import * as runs from '../../store/runs.ts'
import * as waiting from '../../store/waiting.ts'
import type { Deps } from '../deps.ts'
import { pickAgain as again, type PickingRun } from '../pick/pick.ts'
import { adopt } from '../pick/take.ts'
import { endOf, outlastsRun } from './end.ts'
import type { RunProgress } from './progress.ts'
import type { Tally } from './tally.ts'

const LOOK_MS = 200
/** The thorough look reads all waiting rows, so it comes seldom, and only when nothing moves. */
const THOROUGH_LOOK_MS = 1_000
/** To count the rows that wait may take one part in so many of the time. */
const COUNT_COST = 20

export interface Watched extends PickingRun, waiting.Done {
  readonly trigger: Trigger
  readonly sources: readonly Source[]
  /** Rows of each source at the most. */
  readonly limit: number | null
  readonly tally: Tally
  readonly waitMs: number
  readonly began: number
  readonly picking: () => boolean
  readonly rate: () => RateState | null
  /** That the service is down, as the process that calls has noted it. */
  readonly findOutage: () => Promise<KnownOutage | null>
  /** There may be lookups to ask again. */
  readonly wake: () => void
  readonly onProgress: ((progress: RunProgress) => void) | undefined
}

/** What a run leaves behind when it ends. */
export interface Left {
  /** Rows of the same sources that other runs hold. */
  others: number
  /** Its own rows whose lookups are tried again by the next run or the daemon, and when the first is. */
  later: number
  laterAt: Date | null
  /** Its own rows that are answered, and locked by other transactions. */
  locked: number
  /** For so long the service had answered nothing; null where it was not down. Milliseconds. */
  downMs: number | null
}

interface Told extends Left {
  settled: number
  waiting: number
  jobsWaiting: number
}

/**
 * Watches a run until nothing of it is left to do, tells how far it is, and takes over what dead runs left meanwhile.
 * @returns what it leaves to others
 */
export async function watch(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  signal: AbortSignal,
): Promise<Left> {
  const told: Told & { countAt: number } = {
    settled: 0,
    waiting: 0,
    jobsWaiting: 0,
    others: 0,
    later: 0,
    laterAt: null,
    locked: 0,
    downMs: null,
    countAt: Number.NEGATIVE_INFINITY,
  }
  while (!signal.aborted) {
    try {
      const began = performance.now()
      if (began >= told.countAt) {
        await countSettled(deps, run, told)
        told.jobsWaiting = await waiting.countJobs(deps.db, run.id)
        const tookMs = performance.now() - began
        told.countAt = began + Math.max(THOROUGH_LOOK_MS, COUNT_COST * tookMs)
      }
      tell(run, told)
      if (!run.picking() && (await isDone(deps, run, told, signal))) {
        await countSettled(deps, run, told)
        tell(run, told)
        return told
      }
    } catch (error) {
      if (error instanceof TableBusy) {
        // Rows that are to be picked again wait behind a locked table, as others wait to be written.
        const idleMs = performance.now() - run.tally.movedAt
        if (idleMs >= Math.min(run.waitMs, deps.rules.leftWaitMs)) {
          await countSettled(deps, run, told)
          tell(run, told)
          return { ...told, locked: told.waiting }
        }
      } else if (!isOutage(error) && !isConflict(error)) throw error
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
  }
  return told
}

/** Rows picked after the count would be taken for settled: so those picked before it are counted. */
async function countSettled(
  deps: Pick<Deps, 'db'>,
  run: Watched,
  told: { settled: number; waiting: number },
): Promise<void> {
  const { picked } = run.tally
  told.waiting = await waiting.countWaiting(deps.db, run.id, run)
  told.settled = Math.max(0, picked - told.waiting)
}

async function isDone(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  told: Left,
  signal: AbortSignal,
): Promise<boolean> {
  const idleMs = performance.now() - run.tally.movedAt
  const names = run.sources.map((source) => source.name)
  // Those that can't be paid stay sent back, and are looked at seldom.
  if (run.budget.rowsUnpaid === 0 && (await waiting.anySentBack(deps.db, run.id, names))) {
    await pickAgain(deps, run, { leftBehind: false, signal })
    return false
  }
  const mine = await waiting.anyWaiting(deps.db, run.id)
  if (mine && idleMs < THOROUGH_LOOK_MS && run.waitMs > 0) return false
  const alive = await runs.live(deps.db)
  const live = alive.map((one) => one.id)
  // What follows the database never ends by itself, and is looked after by another process when it dies. The schedule
  // has a next tick: it need not stay for what a long backfill may leave behind. A run of another service
  // does other work.
  const unawaited = alive
    .filter((one) => one.options.follow === true || run.trigger === 'schedule' || one.service !== run.service)
    .map((one) => one.id)
  // Where a run writes, its write back does it.
  if (run.dry) await waiting.sendOn(deps.db, run.id, run.cascading)
  let waits = await waiting.whatWaits(deps.db, run, names, live, unawaited)
  if (await takeOver(deps, run, live, waits, signal))
    waits = await waiting.whatWaits(deps.db, run, names, live, unawaited)
  told.others = waits.others
  told.later = waits.later
  told.laterAt = waits.laterAt
  told.locked = waits.locked
  told.downMs = waits.mine === 0 ? null : await downFor(deps, run)
  const unpayable = waits.abandoned + run.budget.rowsUnpaid
  const end = endOf({
    ...waits,
    others: waits.awaited,
    unpayable,
    isDown: told.downMs !== null,
    idleMs,
    waitMs: run.waitMs,
    leftWaitMs: deps.rules.leftWaitMs,
    picking: false,
  })
  if (end === 'continue') await sleep(THOROUGH_LOOK_MS - LOOK_MS, undefined, { signal }).catch(() => {})
  // Freed by a job that was given up after these rows were picked: the budget had not reckoned with them.
  else run.budget.leaveWaiting('abandoned', waits.abandoned)
  return end !== 'continue'
}

/** For how long the service has answered nothing, where that is too long to stay; else null. */
async function downFor(deps: Pick<Deps, 'db'>, run: Watched): Promise<number | null> {
  const outage = await run.findOutage()
  if (outage === null) return null
  const lastedMs = Math.min(outage.lastedMs, performance.now() - run.began)
  return outlastsRun(lastedMs, await waiting.anyAnswered(deps.db, run.id)) ? outage.lastedMs : null
}

/** @returns whether anything was taken over, so that the situation has changed */
async function takeOver(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  live: readonly number[],
  waits: waiting.Waiting,
  signal: AbortSignal,
): Promise<boolean> {
  const adopted = waits.abandoned > 0 ? await adopt(deps.db, run, live) : 0
  const picked = await pickAgain(deps, run, { leftBehind: true, signal })
  if (adopted > 0 && !picked) moved(run)
  return picked || adopted > 0
}

/** @returns whether any row was picked */
async function pickAgain(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  options: { readonly leftBehind: boolean; readonly signal: AbortSignal },
): Promise<boolean> {
  let any = false
  for (const source of run.sources) {
    const did = await again(deps, run, source, { ...options, limit: run.limit })
    run.tally.picked += did.picked
    any ||= did.picked + did.again > 0
  }
  if (any) moved(run)
  return any
}

function moved(run: Watched): void {
  run.tally.moved()
  run.wake()
}

function tell(run: Watched, told: Told): void {
  if (!run.onProgress) return
  const rate = run.rate()
  run.onProgress({
    picked: run.tally.picked,
    settled: told.settled,
    asked: run.tally.asked,
    submitted: run.tally.submitted,
    jobsWaiting: told.jobsWaiting,
    picking: run.picking(),
    written: run.tally.written,
    rate,
    waiting: whyItWaits(run, told, rate),
    elapsedMs: performance.now() - run.began,
  })
}

function whyItWaits(run: Watched, told: Told, rate: RateState | null): string | null {
  if (rate?.waiting) return rate.waiting
  if (performance.now() - run.tally.movedAt < 2 * THOROUGH_LOOK_MS) return null
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
  if (rate === null || rate.isElsewhere) return 'another process calls the service'
  return null
}
