import { setTimeout as sleep } from 'node:timers/promises'
import type { Config, ScheduleEntry } from '../config/config.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { tick as dropOld } from '../pipeline/keep.ts'
import { loop } from '../pipeline/run/loop.ts'
import { Nudge } from '../pipeline/run/nudge.ts'
import { run, type RunDeps } from '../pipeline/run/run.ts'
import { Works, type Step } from '../pipeline/run/works.ts'
import { afterMs, throughOutage } from '../store/outage.ts'
import * as ticks from '../store/ticks.ts'
import { Follow } from './follow.ts'
import type { Notifier } from './notify.ts'
import { Schedule, type RunTick } from './schedule.ts'
import { supervise } from './supervise.ts'

export interface DaemonDeps extends RunDeps {
  readonly config: Pick<Config, 'schedule' | 'keep' | 'budget'>
  readonly notifier: Notifier
}

export interface DaemonOptions {
  /** Takes no more work, lets what is under way end, and saves the state. */
  readonly signal: AbortSignal
  /** Gives the receiver its wake-up: deliveries are settled as they come. */
  readonly onStarted: (wake: { delivered(): void }) => void
}

/** The list of changes is looked at so often when nothing changes. */
const LONGEST_LOOK_MS = 250
/** How long a run of the schedule waits for its deliveries when nothing else is left to do. */
const WAIT_MS = 30 * 60_000
/** What is old is looked for so often, and between two batches. */
const KEEP_EVERY_MS = 10 * 60_000
const KEEP_PACE_MS = 200

/**
 * What `fillrate start` does with one configuration: schedule, sync, and the steps of all its runs in one set of works.
 * A step that fails is begun again after a while; the runs that can't go on without it fail.
 */
export async function work(deps: DaemonDeps, options: DaemonOptions): Promise<void> {
  const { db, log, config, notifier, owner } = deps
  const { signal } = options
  const works = new Works(deps, {
    sources: [...deps.sources.values()],
    calls: { deps, takeTurn: deps.takeTurn, hearRate: deps.hearRate, scope: deps.scope },
    signal,
    onRecovered: ({ expiredJobs }) => {
      if (expiredJobs > 0) notifier.jobsLate(expiredJobs)
    },
  })
  options.onStarted({ delivered: works.wakeSettling })

  const schedule = new Schedule(
    {
      db,
      log,
      owner,
      clock: () => ticks.clock(db),
      leaseMs: LEASE_MS,
      run: (entry, tick) => runEntry(deps, works, entry, tick),
    },
    config.schedule,
  )
  const sources = [...deps.sources.values()].filter((source) => source.mapping.follow)
  const follow = new Follow(deps, {
    sources,
    owner,
    scope: deps.scope,
    works,
    budget: budgetOf(config.budget),
    onEnded: (report, trigger, names) => notifier.runEnded(report, { trigger, sources: names }),
  })
  const runs: Step[] = [
    {
      name: 'schedule',
      source: null,
      begin: () =>
        loop({
          name: 'schedule',
          log,
          signal,
          nudge: new Nudge(),
          tick: () => scheduleTick(schedule, signal),
        }),
    },
    ...(sources.length === 0 ? [] : [followStep(deps, follow, signal)]),
    { name: 'keep', source: null, begin: () => keepOut(deps, signal) },
  ]
  await Promise.all([...works.steps(), ...runs].map((step) => supervise(deps, works, step, signal)))
  // Now that every answer that was on its way is stored, the runs can tell what they did.
  await schedule.stop()
  const onWait = (error: Error): void => log.warn({ reason: error.message }, 'waiting for Postgres')
  // Its lease ends by itself, and its runs are found dead: a shutdown does not wait for Postgres to come back.
  if (sources.length > 0) await throughOutage(() => follow.stop(), { onWait, giveUp: afterMs(LEASE_MS) })
}

async function scheduleTick(schedule: Schedule, signal: AbortSignal): Promise<number> {
  await schedule.tick()
  const ms = Math.max(20, Math.min(1_000, schedule.untilNext()))
  await sleep(ms, undefined, { signal }).catch(() => {})
  return 1
}

/** Nothing tells it of a change: a NOTIFY would make users' commits wait for each other. */
function followStep({ log }: DaemonDeps, follow: Follow, signal: AbortSignal): Step {
  return {
    name: 'follow',
    source: null,
    begin: () =>
      loop({
        name: 'follow',
        log,
        signal,
        nudge: new Nudge(),
        paceMs: 50,
        longestLookMs: LONGEST_LOOK_MS,
        tick: () => follow.tick(signal),
      }),
  }
}

async function runEntry(
  deps: DaemonDeps,
  works: Works,
  entry: ScheduleEntry,
  { signal, budgetName, onStarted }: RunTick,
) {
  const sources = entry.sources.map((name) => deps.sources.get(name)).filter((source) => source !== undefined)
  return run(deps, {
    sources,
    trigger: 'schedule',
    limit: entry.limit,
    budget: budgetOf(entry.budget ?? deps.config.budget),
    budgetName,
    where: null,
    route: 'auto',
    waitMs: WAIT_MS,
    signal,
    works,
    onStarted: ({ id }) => onStarted(id),
    onEnded: (report) => deps.notifier.runEnded(report, { trigger: 'schedule', sources: entry.sources }),
  })
}

const budgetOf = (budget: Config['budget']): number | null => (budget === 'unlimited' ? null : (budget ?? 0))

/** Deletes what has been kept long enough, a little at a time. */
function keepOut(deps: DaemonDeps, signal: AbortSignal): Promise<void> {
  const sweep = { after: 0 }
  return loop({
    name: 'keep',
    log: deps.log,
    signal,
    nudge: new Nudge(),
    tick: async () => {
      const { dropped, more } = await dropOld(deps, deps.config.keep, sweep)
      if (Object.values(dropped).some((count) => count > 0))
        deps.log.debug({ ...dropped }, 'what was kept long enough is deleted')
      await sleep(more ? KEEP_PACE_MS : KEEP_EVERY_MS, undefined, { signal }).catch(() => {})
      return 1
    },
  })
}
