import { setTimeout as sleep } from 'node:timers/promises'
import type { RateState } from '../../service/limiter.ts'
import type { Source } from '../../sources/source.ts'
import * as jobs from '../../store/jobs.ts'
import * as lookups from '../../store/lookups.ts'
import { isOutage } from '../../store/outage.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import type { Deps } from '../deps.ts'
import type { Budget } from '../pick/budget.ts'
import { beginPass, tick as pick } from '../pick/pick.ts'
import { endOf } from './end.ts'
import type { RunProgress } from './progress.ts'
import type { Tally } from './tally.ts'

const LOOK_MS = 200
/** The thorough look reads all waiting rows, so it comes seldom, and only when nothing moves. */
const THOROUGH_LOOK_MS = 1_000

export interface Watched {
  readonly id: number
  readonly sources: readonly Source[]
  readonly budget: Budget
  readonly tally: Tally
  readonly waitMs: number
  readonly began: number
  readonly picking: () => boolean
  readonly rate: () => RateState | null
  /** There may be lookups to ask again. */
  readonly wake: () => void
  readonly onProgress: ((progress: RunProgress) => void) | undefined
}

/** Watches a run until nothing of it is left to do, tells how far it is, and takes over what dead runs left meanwhile. */
export async function watch(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  signal: AbortSignal,
): Promise<void> {
  const told = { waiting: 0, jobsWaiting: 0, others: 0, at: Number.NEGATIVE_INFINITY }
  while (!signal.aborted) {
    try {
      if (performance.now() - told.at >= THOROUGH_LOOK_MS) {
        told.waiting = await rows.countWaiting(deps.db, run.id)
        told.jobsWaiting = await jobs.countOpen(deps.db)
        told.at = performance.now()
      }
      tell(run, told)
      if (!run.picking() && (await isDone(deps, run, told, signal))) {
        told.waiting = await rows.countWaiting(deps.db, run.id)
        tell(run, told)
        return
      }
    } catch (error) {
      if (!isOutage(error)) throw error
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
  }
}

async function isDone(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  told: { others: number },
  signal: AbortSignal,
): Promise<boolean> {
  const idleMs = performance.now() - run.tally.movedAt
  const mine = await rows.anyWaiting(deps.db, run.id)
  if (mine && idleMs < THOROUGH_LOOK_MS && run.waitMs > 0) return false
  const live = (await runs.live(deps.db)).map((one) => one.id)
  const names = run.sources.map((source) => source.name)
  let waits = await rows.whatWaits(deps.db, run.id, names, live)
  told.others = waits.others
  if (await takeOver(deps, run, live, waits, signal))
    waits = await rows.whatWaits(deps.db, run.id, names, live)
  const end = endOf({ ...waits, unpayable: waits.abandoned, idleMs, waitMs: run.waitMs, picking: false })
  if (end === 'go_on') await sleep(THOROUGH_LOOK_MS - LOOK_MS, undefined, { signal }).catch(() => {})
  return end !== 'go_on'
}

/** @returns whether anything was taken over, so that the situation has changed */
async function takeOver(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: Watched,
  live: readonly number[],
  waits: rows.Waiting,
  signal: AbortSignal,
): Promise<boolean> {
  let taken = 0
  if (waits.abandoned > 0 && run.budget.left > 0) {
    const adopted = await lookups.adopt(deps.db, run.id, live, Math.min(1_000, run.budget.left))
    run.budget.spend(adopted)
    taken += adopted
  }
  for (const source of run.sources) {
    // Only what was left behind: rows of runs that died since, and rows whose inputs changed before they were written.
    const pass = await beginPass(deps, source, { limit: null, where: null })
    while (pass.phase === 'left_behind' && !signal.aborted) {
      const did = await pick(deps, run, pass, { limit: null, where: null })
      run.tally.picked += did.picked
      taken += did.picked
    }
  }
  if (taken > 0) {
    run.tally.moved()
    run.wake()
  }
  return taken > 0
}

function tell(run: Watched, told: { waiting: number; jobsWaiting: number; others: number }): void {
  if (!run.onProgress) return
  const rate = run.rate()
  run.onProgress({
    picked: run.tally.picked,
    settled: Math.max(0, run.tally.picked - told.waiting),
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

function whyItWaits(
  run: Watched,
  told: { waiting: number; jobsWaiting: number; others: number },
  rate: RateState | null,
): string | null {
  if (rate?.waiting) return rate.waiting
  if (performance.now() - run.tally.movedAt < 2 * THOROUGH_LOOK_MS) return null
  if (told.waiting > 0 && told.jobsWaiting > 0) return `${told.jobsWaiting} jobs wait for their delivery`
  if (told.waiting === 0 && told.others > 0)
    return `another run works on ${told.others} rows of the same sources`
  if (rate === null) return 'another process calls the service'
  return null
}
