import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { cascades } from '../../domain/identifiers/kind.ts'
import type { Trigger } from '../../domain/run.ts'
import type { RouteOption } from '../../domain/route.ts'
import { TakenForDead } from '../../domain/taken-for-dead.ts'
import type { Source } from '../../sources/source.ts'
import { TableBusy } from '../../store/conflict.ts'
import { throughOutage } from '../../store/outage.ts'
import type { KnownOutage } from '../../store/outages.ts'
import * as pauses from '../../store/pauses.ts'
import * as runs from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import { rehearseRun } from '../dry-run/dry-run.ts'
import { measureAll } from '../measure.ts'
import { Budget } from '../pick/budget.ts'
import { remembered } from '../remembered.ts'
import { beginPass, tick as pick, type PickingRun } from '../pick/pick.ts'
import { end, Seen } from './close.ts'
import type { RunProgress } from './progress.ts'
import type { RunReport } from './report.ts'
import { Tally } from './tally.ts'
import type { HearRate, TakeTurn } from './turn.ts'
import { watch } from './watch.ts'
import { every, Works } from './works.ts'

export interface RunDeps extends Omit<CallDeps, 'limiter'> {
  readonly takeTurn: TakeTurn
  readonly hearRate: HearRate
  readonly findOutage: () => Promise<KnownOutage | null>
  /** Names this process in tables and logs; unique for each start. */
  readonly owner: string
  /** The service and the key in use by now: only who calls for it serves the runs of this process. */
  readonly scope: () => string
}

export interface RunOptions {
  readonly sources: readonly Source[]
  readonly trigger: Trigger
  /** Rows of each source at the most. */
  readonly limit: number | null
  /** Lookups that may be asked. Null: unlimited, because somebody said so. */
  readonly budget: number | null
  /** The budget is that of all runs with this name: a run that is begun again goes on with what is left of it. */
  readonly budgetName?: string | null
  readonly where: string | null
  readonly route: RouteOption
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  /** Interrupts: nothing new is begun, what is under way is finished, the state is saved. */
  readonly signal: AbortSignal
  readonly onProgress?: (progress: RunProgress) => void
  /** Asks, but writes nothing: tells what it would write, and keeps so many of the rows for its report. */
  readonly dryRun?: { readonly sample: number } | null
  /** Gives the run its receiver's wake-up: deliveries are settled as they come. */
  readonly onStarted?: (run: { readonly id: number; delivered(): void }) => void
  /** Told of its report when it has ended, in whatever way. */
  readonly onEnded?: (report: RunReport) => void
  /** The works that this process has running already. Without them the run does all its steps itself. */
  readonly works?: Works
}

/**
 * One pass over some sources: all steps at once, each in its own loop, until no row of the run waits. Any number of
 * runs may work on one database; each finishes what it picked, and takes over what a dead one left. A paused source is
 * left out, and one that is paused meanwhile is not picked any further.
 * @throws what ended the run, after it was stored as failed
 */
export async function run(deps: RunDeps, asked: RunOptions): Promise<RunReport> {
  const began = performance.now()
  const seen = new Seen()
  const options = await withoutPaused(deps, asked, seen)
  const { dryRun = null } = options
  const dry = dryRun !== null
  const tally = new Tally()
  const budget = new Budget(options.budget)
  const token = randomUUID()
  const id = await runs.start(deps.db, {
    trigger: options.trigger,
    sources: options.sources.map((source) => source.name),
    options: {
      limit: options.limit,
      budget: options.budget,
      where: options.where,
      route: options.route,
      ...(dry && { dry }),
    },
    owner: deps.owner,
    token,
    leaseMs: LEASE_MS,
    budgetName: options.budgetName ?? null,
    scope: deps.scope(),
    service: deps.service,
  })
  deps.log.info(
    { run: id, sources: options.sources.map((source) => source.name), budget: options.budget, dry },
    'run started',
  )

  const finished = new AbortController()
  const ending = AbortSignal.any([finished.signal, options.signal])
  let picking = true
  const works =
    options.works ??
    new Works(deps, {
      sources: dry ? [] : options.sources,
      calls: { deps, takeTurn: deps.takeTurn, hearRate: deps.hearRate, scope: deps.scope },
      signal: ending,
    })
  const { wakeCalls, wakeWriters } = works
  const leave = works.join({
    run: id,
    sources: options.sources.map((source) => source.name),
    tally,
    onStop: (error) => {
      seen.stop ??= error
      finished.abort()
    },
    onFailure: (error) => {
      seen.failures.push(error)
      finished.abort()
    },
  })
  options.onStarted?.({ id, delivered: works.wakeSettling })

  const steps = [
    heartbeat(deps, id, token, finished.signal),
    pickAll(deps, { id, budget, dry, service: deps.service }, options, ending, seen, (picked) => {
      tally.picked += picked
      if (picked > 0) tally.moved()
      wakeCalls()
      wakeWriters()
    }).then(async () => {
      if (ending.aborted) return
      await throughOutage(() => runs.donePicking(deps.db, id, token), { signal: finished.signal })
      picking = false
      wakeCalls()
    }),
    ...(options.works ? [] : works.steps().map((step) => step.begin())),
    ...(dry
      ? []
      : [
          every(MEASURE_MS, ending, deps, 'measure', () =>
            measureAll(deps, options.sources, { everyMs: MEASURE_MS }),
          ),
        ]),
    watch(
      deps,
      {
        id,
        trigger: options.trigger,
        dry,
        service: deps.service,
        cascading: options.sources.filter(({ mapping }) => cascades(mapping)).map(({ name }) => name),
        sources: options.sources,
        limit: options.limit,
        budget,
        tally,
        waitMs: options.waitMs,
        began,
        picking: () => picking,
        rate: () => works.rate(),
        findOutage: deps.findOutage,
        wake: wakeCalls,
        onProgress: options.onProgress,
      },
      ending,
    )
      .then(async (left) => {
        seen.left = left
        // While the run is still kept alive: otherwise another one could take its rows meanwhile.
        if (dryRun === null || ending.aborted) return
        const rehearsing = { sources: options.sources, sample: dryRun.sample, signal: ending }
        seen.rehearsal = await throughOutage(() => rehearseRun(deps, id, rehearsing), { signal: ending })
      })
      .finally(() => finished.abort()),
  ]
  await Promise.all(
    steps.map((step) =>
      step.catch((error: unknown) => {
        seen.failures.push(error)
        finished.abort()
      }),
    ),
  )
  leave()
  await deps.meter?.flush()
  if (!dry && !options.signal.aborted) await measureAll(deps, options.sources, { everyMs: 0 })
  return end(deps, { id, token, budget, tally, began, seen, rate: works.rate() }, options)
}

/** How often coverage is counted while a run works, where it costs little. */
const MEASURE_MS = 5_000

/** Leaves out the sources that are paused. */
async function withoutPaused({ db }: RunDeps, asked: RunOptions, seen: Seen): Promise<RunOptions> {
  for (const name of await pauses.among(
    db,
    asked.sources.map((source) => source.name),
  ))
    seen.paused.add(name)
  return { ...asked, sources: asked.sources.filter((source) => !seen.paused.has(source.name)) }
}

const isPaused = async ({ db }: RunDeps, source: Source): Promise<boolean> =>
  (await pauses.among(db, [source.name])).length > 0

/** Keeps a run alive. @throws when another process has declared it dead */
export function heartbeat(
  deps: Pick<RunDeps, 'db' | 'log' | 'scope'>,
  id: number,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  return every(LEASE_MS / 3, signal, deps, 'heartbeat', async () => {
    if (await runs.extend(deps.db, id, token, LEASE_MS, deps.scope())) return
    throw new TakenForDead(id, LEASE_MS)
  })
}

/** How often a table is looked at that another transaction has locked. */
const LOCKED_LOOK_MS = 1_000

/** Picks each source to its end, unless it is paused, or its table stays locked for as long as the run may wait. */
async function pickAll(
  deps: RunDeps,
  run: PickingRun,
  options: RunOptions,
  signal: AbortSignal,
  seen: Seen,
  onPicked: (rows: number) => void,
): Promise<void> {
  const onWait = (error: Error, ms: number): void =>
    deps.log.warn({ step: 'pick', reason: error.message, ms }, 'waiting for Postgres')
  for (const source of options.sources) {
    const pass = await throughOutage(() => beginPass(deps, source, options), { signal, onWait })
    const paused = remembered(() => isPaused(deps, source))
    let readAt = performance.now()
    while (pass.phase !== 'done' && !signal.aborted) {
      if (await throughOutage(paused, { signal, onWait })) {
        seen.paused.add(source.name)
        break
      }
      const page = async (): Promise<number | null> => {
        try {
          return (await pick(deps, run, pass, options)).picked
        } catch (error) {
          if (error instanceof TableBusy) return null
          throw error
        }
      }
      const picked = await throughOutage(page, { signal, onWait })
      if (picked === null && performance.now() - readAt > options.waitMs) {
        seen.unread.add(source.name)
        break
      }
      if (picked === null) await sleep(LOCKED_LOOK_MS, undefined, { signal }).catch(() => {})
      else {
        readAt = performance.now()
        onPicked(picked)
      }
    }
  }
}
