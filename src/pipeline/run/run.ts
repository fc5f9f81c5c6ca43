import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Run, type Trigger } from '../../domain/run.ts'
import type { RouteOption } from '../../domain/route.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { RateState } from '../../service/limiter.ts'
import type { Source } from '../../sources/source.ts'
import { throughOutage } from '../../store/outage.ts'
import * as runs from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import { Budget } from '../pick/budget.ts'
import { beginPass, tick as pick } from '../pick/pick.ts'
import * as recover from '../recover.ts'
import * as settle from '../settle/settle.ts'
import * as writeBack from '../write-back/write-back.ts'
import { callWhenever } from './calling.ts'
import { loop } from './loop.ts'
import { Nudge } from './nudge.ts'
import type { RunProgress } from './progress.ts'
import { makeReport, type RunReport, type RunStatus } from './report.ts'
import { Tally } from './tally.ts'
import type { TakeTurn, Turn } from './turn.ts'
import { watch } from './watch.ts'

export interface RunDeps extends Omit<CallDeps, 'limiter'> {
  readonly takeTurn: TakeTurn
  /** Names this process in tables and logs; unique for each start. */
  readonly owner: string
}

export interface RunOptions {
  readonly sources: readonly Source[]
  readonly trigger: Trigger
  /** Rows of each source at the most. */
  readonly limit: number | null
  /** Lookups that may be asked. Null: unlimited, because somebody said so. */
  readonly budget: number | null
  readonly where: string | null
  readonly route: RouteOption
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  /** Interrupts: nothing new is begun, what is under way is finished, the state is saved. */
  readonly signal: AbortSignal
  readonly onProgress?: (progress: RunProgress) => void
  /** Gives the run its receiver's wake-up: deliveries are settled as they come. */
  readonly onStarted?: (wake: { delivered(): void }) => void
}

/**
 * One pass over some sources: all steps at once, each in its own loop, until no row of the run waits. Any number of
 * runs may work on one database; each finishes what it picked, and takes over what a dead one left.
 * @throws what ended the run, after it was stored as failed
 */
export async function run(deps: RunDeps, options: RunOptions): Promise<RunReport> {
  const began = performance.now()
  const tally = new Tally()
  const budget = new Budget(options.budget)
  const token = randomUUID()
  const id = await runs.start(deps.db, {
    trigger: options.trigger,
    sources: options.sources.map((source) => source.name),
    options: { limit: options.limit, budget: options.budget, where: options.where, route: options.route },
    owner: deps.owner,
    token,
    leaseMs: LEASE_MS,
  })
  deps.log.info(
    { run: id, sources: options.sources.map((source) => source.name), budget: options.budget },
    'run started',
  )

  const toLookUp = new Nudge()
  const toSubmit = new Nudge()
  const toSettle = new Nudge()
  const toWrite = options.sources.map(() => new Nudge())
  const wakeCalls = (): void => {
    toLookUp.nudge()
    toSubmit.nudge()
  }
  const wakeWriters = (): void => toWrite.forEach((nudge) => nudge.nudge())
  options.onStarted?.({ delivered: () => toSettle.nudge() })

  const finished = new AbortController()
  const ending = AbortSignal.any([finished.signal, options.signal])
  const seen = new Seen()
  let picking = true

  const common = { signal: ending, log: deps.log }
  const steps = [
    heartbeat(deps, id, token, finished.signal),
    pickAll(deps, { id, budget }, options, ending, (picked) => {
      tally.picked += picked
      if (picked > 0) tally.moved()
      wakeCalls()
      wakeWriters()
    }).then(async () => {
      if (ending.aborted) return
      await runs.donePicking(deps.db, id, token)
      picking = false
      wakeCalls()
    }),
    callWhenever({
      deps,
      takeTurn: deps.takeTurn,
      tally,
      toLookUp,
      toSubmit,
      wakeWriters,
      signal: ending,
      onTurn: (turn) => seen.turnTo(turn),
      onStop: (error) => {
        seen.stop ??= error
        finished.abort()
      },
    }),
    loop({
      ...common,
      name: 'settle',
      nudge: toSettle,
      paceMs: 50,
      full: 20,
      tick: async () => {
        const did = await settle.tick(deps)
        if (did.answered > 0) wakeWriters()
        if (did.deliveries > 0) {
          tally.moved()
          toLookUp.nudge()
        }
        return did.deliveries
      },
    }),
    ...options.sources.map((source, n) =>
      loop({
        ...common,
        name: `write back ${source.name}`,
        nudge: toWrite[n] ?? new Nudge(),
        paceMs: 200,
        full: 500,
        tick: async () => {
          const did = await writeBack.tick(deps, source)
          tally.written += did.cells
          if (did.rows > 0) tally.moved()
          return did.rows
        },
      }),
    ),
    every(LEASE_MS / 5, ending, deps, 'recover', () => recover.tick(deps, id)),
    watch(
      deps,
      {
        id,
        sources: options.sources,
        budget,
        tally,
        waitMs: options.waitMs,
        began,
        picking: () => picking,
        rate: () => seen.rate(),
        wake: wakeCalls,
        onProgress: options.onProgress,
      },
      ending,
    ).then(() => finished.abort()),
  ]
  await Promise.all(
    steps.map((step) =>
      step.catch((error: unknown) => {
        seen.failures.push(error)
        finished.abort()
      }),
    ),
  )
  return end(deps, { id, token, budget, tally, began, seen }, options)
}

/** What a run meets on its way and tells at its end. */
class Seen {
  readonly failures: unknown[] = []
  stop: ServiceError | null = null
  #turn: Turn | null = null
  #rate: RateState | null = null

  turnTo(turn: Turn | null): void {
    if (this.#turn) this.#rate = this.#turn.limiter.state()
    this.#turn = turn
  }

  rate(): RateState | null {
    return this.#turn?.limiter.state() ?? this.#rate
  }
}

/** Something small, now and then, in a loop that outlasts an outage. */
function every(
  ms: number,
  signal: AbortSignal,
  deps: RunDeps,
  name: string,
  act: () => Promise<unknown>,
): Promise<void> {
  return loop({
    name,
    nudge: new Nudge(),
    signal,
    log: deps.log,
    tick: async () => {
      await act()
      await sleep(ms, undefined, { signal }).catch(() => {})
      return 1
    },
  })
}

function heartbeat(deps: RunDeps, id: number, token: string, signal: AbortSignal): Promise<void> {
  return every(LEASE_MS / 3, signal, deps, 'heartbeat', async () => {
    if (await runs.extend(deps.db, id, token, LEASE_MS)) return
    throw new Error(
      `run ${id} was taken for dead by another process, because it could not say for ${LEASE_MS / 1000} s that it lives. Its rows are taken over; run again to finish what is left`,
    )
  })
}

async function pickAll(
  deps: RunDeps,
  run: { readonly id: number; readonly budget: Budget },
  options: RunOptions,
  signal: AbortSignal,
  onPicked: (rows: number) => void,
): Promise<void> {
  const onWait = (error: Error, ms: number): void =>
    deps.log.warn({ step: 'pick', reason: error.message, ms }, 'waiting for Postgres')
  for (const source of options.sources) {
    const pass = await beginPass(deps, source, options)
    while (pass.phase !== 'done' && !signal.aborted) {
      const did = await throughOutage(() => pick(deps, run, pass, options), { signal, onWait })
      onPicked(did.picked)
    }
  }
}

async function end(
  deps: RunDeps,
  run: {
    readonly id: number
    readonly token: string
    readonly budget: Budget
    readonly tally: Tally
    readonly began: number
    readonly seen: Seen
  },
  options: RunOptions,
): Promise<RunReport> {
  const [failure] = run.seen.failures
  const [status, reason] = statusOf(run, failure, options.signal.aborted)
  const report = await makeReport(deps.db, {
    id: run.id,
    status,
    reason,
    leftOut: run.budget.rowsLeftOut,
    requests: run.tally.requests(),
    rate: run.seen.rate(),
    durationMs: performance.now() - run.began,
  })
  const state =
    status === 'failed' || status === 'refused'
      ? Run.failed
      : status === 'interrupted'
        ? Run.interrupted
        : Run.completed
  await runs.finish(deps.db, run.id, run.token, { state, reason, totals: report })
  deps.log.info({ run: run.id, status, reason, rows: report.rows, requests: report.requests }, 'run ended')
  if (failure !== undefined) throw failure
  return report
}

function statusOf(
  run: { readonly budget: Budget; readonly seen: Seen },
  failure: unknown,
  interrupted: boolean,
): [RunStatus, string | null] {
  if (failure !== undefined)
    return ['failed', failure instanceof Error ? failure.message : 'an unknown failure']
  if (run.seen.stop !== null) return ['refused', run.seen.stop.message]
  if (interrupted) return ['interrupted', 'asked to stop']
  const { rowsLeftOut, rowsUnpaid, limit } = run.budget
  const unpaid = [
    ...(rowsLeftOut > 0 ? [`${rowsLeftOut} rows were left out`] : []),
    ...(rowsUnpaid > 0 ? [`${rowsUnpaid} rows wait for their next lookup`] : []),
  ]
  if (unpaid.length > 0)
    return ['budget_reached', `${unpaid.join(' and ')}: the budget of ${limit} lookups is used up`]
  return ['completed', null]
}
