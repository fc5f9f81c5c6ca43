import * as scheduledRuns from '../store/scheduled-runs.ts'
import { listOpenConditions } from '../store/conditions.ts'
import { reportSource } from '../runs/condition-log.ts'
import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { mixedBudgetOf, lookupBudgetOf, type Config } from '../config/config.ts'
import type { RunSpec } from '../domain/run.ts'
import type { LookupBudget } from '../domain/spend.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { enforceRetention } from '../pipeline/retention.ts'
import { loopTask, repeating, type WorkerTask } from '../runs/loop.ts'
import { executeRun, type ExecuteRunOptions } from '../runs/run.ts'
import type { RunDeps, ServiceProcess } from '../runs/run-part.ts'
import { eraseAllDeleted } from '../runs/reconcile-deleted.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { SourceDeps } from '../runs/maintenance.ts'
import { unlessBroken } from '../runs/source-health.ts'
import { Workers } from '../runs/workers.ts'
import { expiresAfter, isTransient, retryWhileUnavailable } from '../store/transaction.ts'
import { LiveSync } from './live-sync.ts'
import type { ProcessState } from './condition-watch.ts'
import { Scheduler, type ScheduledRunEnd, type ScheduledRunOptions } from './scheduler.ts'
import type { Log } from '../util/log.ts'

interface ServiceDeps extends SourceDeps {
  /** Each service of the configuration, in their order. */
  readonly services: readonly RunDeps[]
  readonly config: Pick<Config, 'schedule' | 'keep' | 'budget' | 'services' | 'liveSync' | 'sources'>
  readonly own: ProcessState
}

export interface ServiceOptions {
  /** Stops taking work, finishes work in progress, and saves the state. */
  readonly signal: AbortSignal
  /** Notified when the receiver has stored a delivery. */
  readonly deliveries: WakeSignal
  /** A source that was broken fits its table again: to be opened anew. */
  readonly onMended?: (() => void) | undefined
}

/**
 * How long a run of the daemon waits for its deliveries when nothing else is left, as `fillrate run`
 * does by default.
 */
const DELIVERY_WAIT_MS = 30 * 60_000

/** Executes a run in the workers of this process. */
const runInWorkers = (
  services: readonly ServiceProcess[],
  run: RunSpec & Pick<ExecuteRunOptions, 'trigger' | 'dryRun' | 'mixed'>,
  options: ScheduledRunOptions,
): Promise<ScheduledRunEnd> => executeRun(services, { ...run, ...options, waitMs: DELIVERY_WAIT_MS })

/** How often the change queue is polled while idle. */
const LIVE_SYNC_POLL_MS = 250
/** Interval between retention passes, and pause between two batches. */
const RETENTION_INTERVAL_MS = 10 * 60_000
const RETENTION_PACE_MS = 200

/**
 * Runs one configuration: schedule, live sync, and the tasks of all their runs in one set of workers. A failed task
 * is restarted after a while; runs that depend on it fail.
 */
export async function runService(deps: ServiceDeps, options: ServiceOptions): Promise<void> {
  const { db, log, config, owner } = deps
  const { signal } = options
  const services = deps.services.map((one) => ({
    deps: one,
    workers: new Workers(one, {
      sources: [...one.sources.values()],
      calls: one,
      signal,
      deliveries: options.deliveries,
      onMended: options.onMended,
    }),
  }))
  const schedule = new Scheduler(
    {
      db,
      log,
      owner,
      clock: () => scheduledRuns.readDatabaseTime(db),
      leaseMs: LEASE_MS,
      run: ({ sources: names, budget }, scheduled) => {
        const spec = {
          sources: names,
          limit: null,
          budget: entryBudget(budget ?? lookupBudgetOf(config)),
          where: null,
        }
        const mixed = budget === null ? mixedBudgetOf(config) : null
        return runInWorkers(services, { ...spec, mixed, route: 'auto', trigger: 'schedule' }, scheduled)
      },
      requests: {
        sources: [...deps.sources.keys(), ...(deps.brokenSources?.keys() ?? [])],
        service: services[0]?.deps.service ?? 0,
        execute: ({ work }, options) => {
          const dryRun = work.isDryRun ? { sample: 0 } : null
          return runInWorkers(services, { ...work, trigger: 'manual', dryRun }, options)
        },
      },
    },
    config.schedule,
  )
  const sources = [...deps.sources.values()].filter((source) => source.mapping.follow)
  const follow = new LiveSync(services, {
    sources,
    budget: entryBudget(config.liveSync.budget),
    onTriggersChecked: (missing) => reportTriggers(deps, missing),
  })
  if (sources.length === 0) await reportTriggers(deps, new Map())
  const loop = { log, signal }
  const runs: WorkerTask[] = [
    loopTask(
      repeating({ ...loop, name: 'schedule' }, async () => {
        await schedule.startDue()
        return Math.max(20, Math.min(1_000, schedule.untilNext()))
      }),
    ),
    // Polls, because a NOTIFY in the trigger would serialise users' commits.
    ...(sources.length === 0
      ? []
      : [
          loopTask({
            ...loop,
            name: 'follow',
            paceMs: 50,
            maxPollMs: LIVE_SYNC_POLL_MS,
            tick: () => follow.tick(signal),
          }),
        ]),
    retentionTask(deps, signal),
  ]
  const tasks = services.flatMap(({ workers }) => workers.tasks().map((task) => ({ task, workers })))
  const all = {
    fail: (error: unknown, source: string | null) => {
      for (const { workers } of services) workers.fail(error, source)
    },
  }
  await Promise.all(
    [...tasks, ...runs.map((task) => ({ task, workers: all }))].map(({ task, workers }) =>
      supervise(deps, workers, task, signal),
    ),
  )
  // All answers in progress are stored now, so the runs can report.
  await schedule.stop()
  const onWait = (error: Error): void =>
    log.debug({ event: 'postgres_waiting', reason: describeError(error) }, 'waiting for Postgres')
  // Otherwise its lease expires, and its runs are found dead: a shutdown does not wait for Postgres to return, nor fail with it.
  if (sources.length > 0)
    await retryWhileUnavailable(() => follow.stop(), { onWait, giveUp: expiresAfter(LEASE_MS) }).catch(
      (error: unknown) => {
        if (!isTransient(error)) throw error
      },
    )
}

/** Reports the sources whose triggers are missing, and that those of the others are not. */
async function reportTriggers(deps: ServiceDeps, missing: ReadonlyMap<string, string>): Promise<void> {
  const open = (await listOpenConditions(deps.db)).filter(({ details }) => details.cause === 'triggers')
  for (const { source } of open)
    if (source !== null && !missing.has(source)) await reportSource(deps, 'late', source, null)
  for (const [source, reason] of missing)
    await reportSource(deps, 'late', source, { cause: 'triggers', reason })
}

const entryBudget = (budget: LookupBudget | null): number | null =>
  budget === 'unlimited' ? null : (budget ?? 0)

/** Deletes expired data in small batches. */
function retentionTask(deps: ServiceDeps, signal: AbortSignal): WorkerTask {
  const sweep = { after: 0 }
  return loopTask(
    repeating({ name: 'keep', log: deps.log, signal }, async () => {
      const { deleted, more } = await enforceRetention(deps, deps.config.keep, sweep)
      if (Object.values(deleted).some((count) => count > 0))
        deps.log.debug({ event: 'data_expired', ...deleted }, 'deleted expired data')
      for (const source of deps.sources.values())
        await unlessBroken(deps, source, () => eraseAllDeleted(deps, source, false, signal))
      return more ? RETENTION_PACE_MS : RETENTION_INTERVAL_MS
    }),
  )
}

const FIRST_RESTART_MS = 1_000
const MAX_RESTART_MS = 60_000

/** Restarts a failed task with increasing delays, so that it does not stop the others. */
export async function supervise(
  { log }: { readonly log: Log },
  workers: Pick<Workers, 'fail'>,
  task: WorkerTask,
  signal: AbortSignal,
): Promise<void> {
  for (let pause = FIRST_RESTART_MS; !signal.aborted; pause = Math.min(MAX_RESTART_MS, pause * 2)) {
    const began = performance.now()
    try {
      await task.start()
      return
    } catch (error) {
      if (signal.aborted) return
      if (performance.now() - began > 10 * MAX_RESTART_MS) pause = FIRST_RESTART_MS
      log.error(
        { event: 'task_failed', task: task.name, source: task.source, err: error, ms: pause },
        'task failed, restarting',
      )
      workers.fail(error, task.source)
      await sleep(pause, undefined, { signal }).catch(() => {})
    }
  }
}
