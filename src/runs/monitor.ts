import type { SlowedWrites } from '../domain/report/status.ts'
import * as waiting from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import { toRunService } from '../pipeline/pick/pass.ts'
import { repick } from '../pipeline/pick/pick.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { isTransient, isConflict, TableBusyError } from '../store/transaction.ts'
import { readProspect } from '../store/budgets.ts'
import { adoptLookups } from '../store/lookups.ts'
import { listSlowedWrites } from '../store/source-state.ts'
import { decideCompletion, FULL_CHECK_MS, isOutageTooLong, nextReadAt } from './completion.ts'
import type { RunCounters, RunProgress } from './counters.ts'
import { isAbort } from './loop.ts'
import {
  brokenSources,
  firstOf,
  fitSources,
  isAfterItself,
  isEnded,
  partsBefore,
  type Leftover,
  type Outage,
  type RunDeps,
  type ServicePart,
  type StartedRun,
} from './run-part.ts'
import { unlessBroken } from './source-health.ts'
import { describeLongPause, describeStall } from './stall.ts'

/** How often progress is reported, and a run without progress in this process is checked. */
const POLL_INTERVAL_MS = 200

/** The rows of a dry run, which are not stored. */
export interface UnstoredRows {
  listWaiting: () => readonly waiting.UnstoredRow[]
  /**
   * Lets them go on where they have an answer, or none is needed.
   * @param isUnpaidTried also where the budget could not pay some of them before
   * @returns whether any has
   */
  goOn: (isUnpaidTried?: boolean) => Promise<boolean>
  /** Requests what dead runs were to request. @returns whether there was anything */
  takeOver: (counts: waiting.RunWaits) => Promise<boolean>
}

interface MonitorOptions {
  /** Null: the rows are stored. */
  readonly unstored: UnstoredRows | null
  /** Maximum rows of each source. */
  readonly limit: number | null
  readonly waitMs: number
  readonly isPicking: () => boolean
  readonly rateOf: (part: ServicePart) => RateStatus | null
  /** A step of a service failed, which ends its part. */
  readonly onFailure: (part: ServicePart, error: unknown) => void
  /** No more rows go on to these services. */
  readonly endGathering: (parts: readonly ServicePart[]) => Promise<void>
  /** There may be lookups to request again. */
  readonly wakeCalls: () => void
  readonly onProgress: ((progress: RunProgress) => void) | undefined
}

interface MonitorState extends Leftover {
  finished: number
  waiting: number
  jobsWaiting: waiting.AwaitedJobs
  slowedWrites: readonly SlowedWrites[]
  /** When the full check is made again, and whether rows of the run waited at the last one. */
  fullCheckAt: number
  hadWaiting: boolean
  /** When finished rows are counted again. */
  countAt: number
}

/**
 * Monitors a run until it is complete, reports progress, and takes over from dead runs.
 * @returns what it leaves to others
 */
export const monitorRun = (
  run: StartedRun,
  options: MonitorOptions,
  signal: AbortSignal,
): Promise<Leftover> => new RunMonitor(run, options, signal).watch()

/** By then, what was answered last is written, in milliseconds. */
const SETTLED_MS = 2_000

class RunMonitor {
  readonly #run: StartedRun
  readonly #deps: RunDeps
  readonly #options: MonitorOptions
  readonly #signal: AbortSignal
  readonly #state: MonitorState = {
    finished: 0,
    waiting: 0,
    jobsWaiting: { all: 0, finished: 0 },
    slowedWrites: [],
    others: 0,
    later: 0,
    laterAt: null,
    locked: 0,
    fullCheckAt: Number.NEGATIVE_INFINITY,
    hadWaiting: false,
    countAt: Number.NEGATIVE_INFINITY,
  }
  /** By service, since when no other one works. */
  readonly #aloneSince = new Map<ServicePart, number>()

  constructor(run: StartedRun, options: MonitorOptions, signal: AbortSignal) {
    this.#run = run
    this.#deps = firstOf(run.parts).deps
    this.#options = options
    this.#signal = signal
  }

  async watch(): Promise<Leftover> {
    const { counters } = this.#run
    const state = this.#state
    const maybeComplete = counters.maybeComplete.listen()
    let isWoken = true
    let lastCheckAt = Number.NEGATIVE_INFINITY
    while (!this.#signal.aborted) {
      try {
        const now = performance.now()
        await this.#count(now)
        this.#report()
        // While calls are answered in this process it is not complete, and says when it may be.
        const isIdle = now - counters.lastProgressAt >= POLL_INTERVAL_MS
        if (!this.#options.isPicking() && (isWoken || isIdle || now - lastCheckAt >= FULL_CHECK_MS)) {
          lastCheckAt = now
          if (await this.#isComplete()) {
            if (this.#options.onProgress) await this.#countFinished()
            this.#report()
            return state
          }
        }
      } catch (error) {
        if (error instanceof TableBusyError) {
          // Requeued rows wait behind a locked table just as rows to be written do.
          if (this.#idleMs() >= Math.min(this.#options.waitMs, this.#deps.policy.lockedWaitMs)) {
            await this.#countFinished()
            this.#report()
            return { ...state, locked: state.waiting }
          }
        } else if (!isTransient(error) && !isConflict(error)) throw error
        this.#report()
      }
      isWoken = await maybeComplete.wait(POLL_INTERVAL_MS, this.#signal)
    }
    return state
  }

  #idleMs(): number {
    return performance.now() - this.#run.counters.lastProgressAt
  }

  /** Counts what is shown: no one else reads it. */
  async #count(now: number): Promise<void> {
    const state = this.#state
    if (!this.#options.onProgress || now < state.countAt) return
    const { db } = this.#deps
    await this.#countFinished()
    const sources = this.#run.parts.flatMap((part) => part.sources)
    const slow = sources.filter(({ mapping }) => mapping.writes !== null).map(({ name }) => name)
    state.slowedWrites = slow.length === 0 ? [] : await listSlowedWrites(db, slow)
    state.jobsWaiting = await waiting.countAwaitedJobs(db, this.#run.id, this.#listUnstored())
    state.countAt = nextReadAt(now, performance.now())
  }

  /** Uses the number picked before the count: rows picked after it would count as finished. */
  async #countFinished(): Promise<void> {
    const { id, counters } = this.#run
    const { picked } = counters
    this.#state.waiting = this.#listUnstored()?.length ?? (await waiting.countWaitingRows(this.#deps.db, id))
    this.#state.finished = Math.max(0, picked - this.#state.waiting)
  }

  #listUnstored(): readonly waiting.UnstoredRow[] | undefined {
    return this.#options.unstored?.listWaiting()
  }

  async #isComplete(): Promise<boolean> {
    const { counters, parts } = this.#run
    const { unstored } = this.#options
    const state = this.#state
    const startedAt = performance.now()
    const idleMs = startedAt - counters.lastProgressAt
    if (await unstored?.goOn()) {
      this.#markProgress()
      return false
    }
    const { hasWaiting, requeuedAt } =
      unstored === null
        ? await findRequeued(this.#run)
        : { hasWaiting: unstored.listWaiting().length > 0, requeuedAt: [] }
    if (requeuedAt.length > 0) {
      if (await this.#repick(requeuedAt, false)) this.#markProgress()
      return false
    }
    // What a service keeps for a full job must not wait until others, which have nothing to do with it, are idle.
    const isGathering = parts.some((part) => part.isGathering)
    if (hasWaiting && idleMs < FULL_CHECK_MS && this.#options.waitMs > 0 && !isGathering) return false
    if (startedAt < state.fullCheckAt && hasWaiting === state.hadWaiting) return false
    const listed = await runs.listRunning(this.#deps.db)
    const running = unstored === null ? listed.filter(runs.isHolding) : listed
    const before = await this.#readCounts(running)
    const hasTaken = await (unstored?.takeOver(before) ?? this.#takeOver(running, before))
    const counts = hasTaken ? await this.#readCounts(running) : before
    const isFreed = ({ service }: ServicePart): boolean =>
      before.at(service).abandoned === 0 && counts.at(service).abandoned > 0
    // What a dead run had leased became free meanwhile. The next check takes it over: only what is left then is beyond the budget.
    if (parts.some(isFreed)) return false
    state.fullCheckAt = nextReadAt(startedAt, performance.now())
    state.hadWaiting = hasWaiting
    return this.#decide(counts, idleMs)
  }

  #readCounts(running: readonly runs.RunningRun[]): Promise<waiting.RunWaits> {
    const { id, trigger, parts } = this.#run
    const unstored = this.#listUnstored()
    const isShared = ({ scopes }: runs.RunningRun): boolean =>
      Object.keys(scopes).length === 0 || parts.some(({ service }) => service in scopes)
    // Live sync never ends by itself, and another process takes over when it dies. A scheduled run has a successor, and
    // need not stay for what a long backfill may abandon. A run of another service does other work. A run without stored rows takes over none.
    const unawaited = running
      .filter(
        (run) =>
          unstored !== undefined || run.options.follow === true || trigger === 'schedule' || !isShared(run),
      )
      .map(({ id }) => id)
    return waiting.readWaitingCounts(
      this.#deps.db,
      id,
      [...new Set(parts.flatMap(({ sources }) => sources.map(({ name }) => name)))],
      running.map(({ id }) => id),
      parts.map(brokenSources),
      unawaited,
      unstored,
    )
  }

  /** Whether every service is done with the run, by what was seen of all of them at once. */
  async #decide(counts: waiting.RunWaits, idleMs: number): Promise<boolean> {
    const { parts, startedAt } = this.#run
    const { policy } = this.#deps
    const state = this.#state
    const waits = parts.map(({ service }) => counts.at(service))
    state.others = counts.others
    state.later = waits.reduce((sum, { later }) => sum + later, 0)
    state.laterAt = waits.reduce<Date | null>(
      (first, { laterAt }) => (first === null || (laterAt !== null && laterAt < first) ? laterAt : first),
      null,
    )
    state.locked = waits.reduce((sum, { locked }) => sum + locked, 0)
    const open = new Set<ServicePart>()
    for (const part of parts) {
      const own = counts.at(part.service)
      const aloneSince = this.#aloneSince.get(part) ?? (parts.length === 1 ? startedAt : performance.now())
      this.#aloneSince.set(part, aloneSince)
      part.outage = own.mine === 0 ? null : await findOutage(part, own.mine, { startedAt, aloneSince })
      const isSettled = own.mine > 0 && idleMs >= SETTLED_MS
      part.longPause = isSettled ? describeLongPause(this.#options.rateOf(part)) : null
      // Then what is leased is called by no one, either.
      const later = part.longPause === null ? own.later : own.mine - own.broken - own.forDelivery - own.locked
      // As at the end of a budget: what is paid for is awaited, and the rest is left.
      const isOutOfCredits = part.outage?.cause === 'out_of_credits'
      const isBounded = !part.budget.isUnlimited && own.forCall > 0
      const prospect = isBounded ? await readProspect(part.deps.db, toRunService(part)) : 'calls'
      const isUnpaid = isOutOfCredits || prospect === 'nothing'
      const completion = decideCompletion({
        ...own,
        ownWaiting: own.mine - own.broken,
        awaitingDelivery: own.forDelivery + (prospect === 'jobs' ? own.forCall : 0),
        others: counts.awaited,
        unpayable: isUnpaid ? own.forCall : part.budget.rowsAwaitingBudget,
        later: isUnpaid ? 0 : later,
        isDown: part.outage?.isTooLong ?? false,
        idleMs,
        waitMs: this.#options.waitMs,
        lockedWaitMs: policy.lockedWaitMs,
      })
      // They were picked, and cannot be requested: others cost more than was expected.
      if (completion !== 'continue' && isBounded && prospect === 'nothing')
        part.budget.setUnrequested(own.forCall)
      if (completion === 'continue' && !isEnded(part)) open.add(part)
    }
    const isWorking = (part: ServicePart): boolean => open.has(part) && part.outage === null
    for (const part of parts)
      if (parts.some((other) => other !== part && isWorking(other)))
        this.#aloneSince.set(part, performance.now())
    await this.#endGathering((part) => open.has(part) && counts.at(part.service).mine > 0)
    return open.size === 0
  }

  /** Rows go on to a service as long as one before it has some. */
  async #endGathering(hasRows: (part: ServicePart) => boolean): Promise<void> {
    const { parts } = this.#run
    const isOver = (part: ServicePart): boolean =>
      part.isGathering && (isAfterItself(part, parts) || !partsBefore(part, parts).some(hasRows))
    await this.#options.endGathering(parts.filter(isOver))
  }

  /** @returns whether anything was taken over */
  async #takeOver(running: readonly runs.RunningRun[], counts: waiting.RunWaits): Promise<boolean> {
    const live = running.map(({ id }) => id)
    const parts = this.#run.parts.filter((part) => !isEnded(part))
    const { db } = this.#deps
    const { onFailure } = this.#options
    let adopted = 0
    for (const part of parts)
      if (counts.at(part.service).abandoned > 0)
        adopted += (await actInPart(part, () => adoptLookups(db, toRunService(part), live), onFailure)) ?? 0
    const hasPicked = await this.#repick(
      parts.map(({ service }) => service),
      true,
    )
    if (adopted > 0 || hasPicked) this.#markProgress()
    return hasPicked || adopted > 0
  }

  #repick(services: readonly number[], includeAbandoned: boolean): Promise<boolean> {
    const { limit, onFailure } = this.#options
    return repickAt(this.#run, services, { includeAbandoned, limit, signal: this.#signal, onFailure })
  }

  #markProgress(): void {
    this.#run.counters.touch()
    this.#options.wakeCalls()
  }

  #report(): void {
    const { onProgress } = this.#options
    if (!onProgress) return
    const { counters, parts, startedAt } = this.#run
    const state = this.#state
    const sum = (of: (part: ServicePart) => number): number =>
      parts.reduce((total, part) => total + of(part), 0)
    const shown = parts.map((part) => {
      const rate = this.#options.rateOf(part)
      const stallReason = describeStall({
        ...state,
        databaseOutage: part.deps.describeOutage(),
        rate,
        idleMs: this.#idleMs(),
      })
      const { requested, submitted } = part.counters
      return { service: part.name, requested, submitted, rate, stallReason }
    })
    const [only] = shown
    const isSingle = shown.length === 1
    onProgress({
      picked: counters.picked,
      finished: state.finished,
      requested: sum((part) => part.counters.requested),
      submitted: sum((part) => part.counters.submitted),
      jobsWaiting: state.jobsWaiting.all,
      picking: this.#options.isPicking(),
      written: sum((part) => part.counters.written),
      rate: isSingle ? (only?.rate ?? null) : null,
      stallReason: isSingle ? (only?.stallReason ?? null) : null,
      elapsedMs: performance.now() - startedAt,
      ...(!isSingle && { services: shown }),
    })
  }
}

/**
 * What a run knows of an outage of one of its services; null: there is none.
 * @param startedAt of the run, by `performance.now()`
 * @param aloneSince since when no other service works: an outage before that has cost no time
 */
async function findOutage(
  { deps, id, service }: Pick<ServicePart, 'deps' | 'id' | 'service'>,
  waitingRows: number,
  { startedAt, aloneSince }: { readonly startedAt: number; readonly aloneSince: number },
): Promise<Outage | null> {
  const circuit = await deps.elector.findOpenCircuit()
  if (circuit === null) return null
  const { scope, openMs, reason, cause } = circuit
  const runMs = performance.now() - startedAt
  // For a run that began after the last refusal a call finds out anew.
  if (cause === 'out_of_credits' && circuit.backoffMs - circuit.probeInMs > runMs) return null
  const wasAnswered = await waiting.hasAnsweredLookups(deps.db, { run: id, service })
  const waitedMs = performance.now() - aloneSince
  const isTooLong = cause !== 'out_of_credits' && isOutageTooLong(Math.min(openMs, waitedMs), wasAnswered)
  return { scope, ms: openMs, reason, cause, wasAnswered, waiting: waitingRows, isTooLong }
}

type RequeuedOf = Pick<StartedRun, 'id' | 'parts' | 'counters'>
type RepickDeps = Pick<RunDeps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>

/**
 * At which services rows of a run wait to be picked again, and whether any row waits. Rows that the budget cannot pay stay requeued, and
 * are checked rarely.
 * @param isUnpaidTried also where the budget could not pay some of them before
 */
export function findRequeued(
  { id, parts }: { readonly id: number; readonly parts: readonly ServicePart<RepickDeps>[] },
  isUnpaidTried = false,
): ReturnType<typeof waiting.findWaitingRows> {
  const able = parts.filter(
    (part) => !isEnded(part) && (isUnpaidTried || part.budget.rowsAwaitingBudget === 0),
  )
  return waiting.findWaitingRows(firstOf(parts).deps.db, id, able.map(fitSources))
}

/**
 * Picks the rows of a run that have gone on to another identifier or service, or whose inputs have changed.
 * @param options.isUnpaidTried also where the budget could not pay some of them before
 * @returns whether there were any
 */
export async function pickRequeued(
  run: RequeuedOf,
  options: Pick<RepickOptions<RunDeps>, 'signal' | 'onFailure'> &
    Pick<MonitorOptions, 'unstored'> & { readonly isUnpaidTried: boolean },
): Promise<boolean> {
  try {
    if (options.unstored) return await options.unstored.goOn(options.isUnpaidTried)
    const { requeuedAt } = await findRequeued(run, options.isUnpaidTried)
    return await repickAt(run, requeuedAt, { ...options, includeAbandoned: false, limit: null })
  } catch (error) {
    // Another transaction has locked the table, or a row: the next look finds them again.
    if (!(error instanceof TableBusyError) && !isConflict(error)) throw error
    return false
  }
}

interface RepickOptions<PartDeps> {
  readonly includeAbandoned: boolean
  readonly limit: number | null
  readonly signal: AbortSignal
  /** Absent: the failure of one service is that of all. */
  readonly onFailure?: (part: ServicePart<PartDeps>, error: unknown) => void
}

/** Picks rows that wait to be picked again at some services. @returns whether there were any */
export async function repickAt<PartDeps extends RepickDeps>(
  { parts, counters }: { readonly parts: readonly ServicePart<PartDeps>[]; readonly counters: RunCounters },
  services: readonly number[],
  { onFailure, ...options }: RepickOptions<PartDeps>,
): Promise<boolean> {
  let hasPicked = false
  const repickPart = async (part: ServicePart<PartDeps>): Promise<void> => {
    for (const source of part.sources) {
      // What dead runs have left begins, or goes on, by way of the first service.
      const includeAbandoned = options.includeAbandoned && source.mapping.step.isFirst
      const pick = () => repick(part.deps, part, source, { ...options, includeAbandoned })
      const result = await unlessBroken(part.deps, source, pick)
      if (result === null) continue
      counters.picked += result.picked
      hasPicked ||= result.picked + result.repicked > 0
    }
  }
  for (const part of parts.filter(({ service }) => services.includes(service)))
    await actInPart(part, () => repickPart(part), onFailure)
  return hasPicked
}

/** Does a step for a service, whose failure is its own: not one that another attempt mends. @returns null if it has failed */
export async function actInPart<Part, Result>(
  part: Part,
  act: () => Promise<Result>,
  onFailure?: (part: Part, error: unknown) => void,
): Promise<Result | null> {
  try {
    return await act()
  } catch (error) {
    const isMended = isTransient(error) || isConflict(error) || error instanceof TableBusyError
    if (onFailure === undefined || isMended || isAbort(error)) throw error
    onFailure(part, error)
    return null
  }
}
