import * as scheduledRuns from '../store/scheduled-runs.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../util/log.ts'
import type { Actions } from '../actions/actions.ts'
import { listFollowed, lookupBudgetOf, mixedBudgetOf, type Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { isConflict, isTransient, releaseWithin } from '../store/transaction.ts'
import { SchemaMissingError } from '../store/schema-errors.ts'
import { openDatabase, type Database } from '../store/open.ts'
import { squashText } from '../sources/problems.ts'
import { describeError } from '../util/error-text.ts'
import { listDueTimes } from '../config/cron.ts'
import { ProcessState, startConditionWatch } from './condition-watch.ts'
import type { Notifier } from './notifier.ts'
import { openReceiver, type Receiver } from '../http/receiver.ts'
import type { MaintenanceDeps, SourceDeps, RunDeps, ServiceProcess } from '../runs/run-part.ts'
import { Workers } from '../runs/workers.ts'
import { listOpenConditions } from '../store/conditions.ts'
import { reportSource, unlessBroken } from '../runs/source-health.ts'
import type { RunSpec } from '../domain/run.ts'
import type { LookupBudget } from '../domain/spend.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { enforceRetention } from '../pipeline/retention.ts'
import { loopTask, repeating, type WorkerTask } from '../runs/loop.ts'
import { executeRun, type ExecuteRunOptions } from '../runs/run.ts'
import { eraseAllDeleted } from '../runs/pick-sources.ts'
import { LiveSync } from './live-sync.ts'
import { Scheduler, type ScheduledRunEnd, type ScheduledRunOptions } from './scheduler.ts'

/** Fillrate opened with its configuration. */
type DaemonApp = Actions & {
  readonly notifier: Notifier
  /** The daemon, behind a receiver that is already open. */
  start(
    options: Omit<WorkOptions, 'onMended'> & { readonly receiver: Pick<Receiver, 'publicUrl'> },
  ): Promise<void>
  close(): Promise<void>
}

interface DaemonOptions {
  readonly environment: Environment & { readonly databaseUrl: string }
  readonly config: Config
  readonly log: Log
  readonly signal: AbortSignal
  /** Checks the configuration against the database and opens it. Adds to `state` what is found wrong. */
  readonly open: (state: ProcessState) => Promise<DaemonApp>
  readonly onListening: (listens: string | null) => void
  /** Called when the daemon begins to work. */
  readonly onReady: () => void
}

/**
 * `fillrate start`: the receiver, open from the start, and what the configuration lets run. Waits until Postgres and the schema are
 * available; `/readyz` reports the reason.
 * @throws ConfigProblems if the configuration is not one for a daemon
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { config, environment, log } = options
  requireBudgets(config)
  requireNotifyUrls(config, environment)
  const state = new ProcessState()
  const db = openDatabase({
    url: environment.databaseUrl,
    max: 4,
    name: 'fillrate receiver',
    ...state.watchConnections(log),
  })
  try {
    await new Daemon(options, state, db).run()
  } finally {
    await db.destroy()
  }
}

/** What a daemon does from its start on, also while Postgres is away: the receiver and the watch of conditions. */
class Daemon {
  readonly #options: DaemonOptions
  readonly #state: ProcessState
  readonly #db: Database
  readonly #deliveries = new WakeSignal()
  /** Null while Postgres or the schema is waited for. */
  #app: DaemonApp | null = null

  constructor(options: DaemonOptions, state: ProcessState, db: Database) {
    this.#options = options
    this.#state = state
    this.#db = db
  }

  async run(): Promise<void> {
    const { log, signal, onListening, onReady } = this.#options
    // First: a process that cannot listen ends, and has neither watched nor recorded anything.
    let receiver = await this.#openReceiver()
    onListening(receiver.url)
    const watch = startConditionWatch({
      db: this.#db,
      log,
      state: this.#state,
      schedules: this.#schedules,
      notifier: () => this.#app?.notifier ?? null,
    })
    const ended = new AbortController()
    const until = AbortSignal.any([signal, ended.signal])
    // The process that has the port may be the one that this process replaces.
    const taking = takeOverPort(
      receiver,
      () => this.#openReceiver(),
      log,
      until,
      (taken) => {
        receiver = taken
        onListening(taken.url)
      },
    )
    try {
      this.#app = await this.#openWhenAvailable()
      if (this.#app === null) return
      onReady()
      await this.#app.start({ signal, receiver, deliveries: this.#deliveries })
    } finally {
      await this.#app?.close()
      ended.abort()
      await taking
      await receiver.close()
      await watch.stop()
    }
  }

  /** Retries until Postgres and the schema are there. @returns null if aborted meanwhile */
  async #openWhenAvailable(): Promise<DaemonApp | null> {
    const { open, signal } = this.#options
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const app = await open(this.#state)
        this.#state.isSchemaOutdated = false
        return app
      } catch (error) {
        const isOutdated = error instanceof SchemaMissingError
        if (!isOutdated && !isTransient(error) && !isConflict(error)) throw error
        // That Postgres is away is noticed by the watch.
        if (isOutdated) this.#state.isSchemaOutdated = true
        await sleep(Math.min(MAX_RETRY_MS, 200 * 2 ** attempt), undefined, { signal }).catch(() => {})
      }
    }
    return null
  }

  #openReceiver(): Promise<Receiver> {
    const { environment, log } = this.#options
    return openReceiver({
      db: this.#db,
      environment,
      log,
      config: this.#options.config,
      deliveries: this.#deliveries,
      dashboard: {
        observer: () => ({ outage: this.#state.findOutage(), schedules: this.#schedules() }),
        app: () => this.#app,
        config: this.#options.config,
        metrics: this.#state.metrics,
      },
    })
  }

  readonly #schedules = (): ReadonlyMap<string, number | null> | null =>
    this.#app && listDueTimes(this.#options.config.schedule, Date.now())
}

const MAX_RETRY_MS = 5_000
const PORT_POLL_MS = 2_000

async function takeOverPort(
  first: Receiver,
  open: () => Promise<Receiver>,
  log: Log,
  signal: AbortSignal,
  onTaken: (receiver: Receiver) => void,
): Promise<void> {
  if (first.url !== null) return
  let logged = ''
  const onRefused = (error: unknown): null => {
    const reason = squashText(describeError(error))
    if (reason !== logged)
      log.error({ event: 'task_failed', task: 'receiver', reason }, 'cannot listen; trying again')
    logged = reason
    return null
  }
  while (!signal.aborted) {
    await sleep(PORT_POLL_MS, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const receiver = await open().catch(onRefused)
    if (receiver === null || receiver.url === null) continue
    onTaken(receiver)
    return
  }
}

/** Requires an address for each notification target: a missing one would be noticed too late. */
function requireNotifyUrls(config: Config, environment: Environment): void {
  if (environment.notifyUrl !== null) return
  const problems: Problem[] = config.notify.flatMap(({ url }, n) =>
    url === null
      ? [
          {
            place: `notify[${n}].url`,
            found: 'none, and FILLRATE_NOTIFY_URL is not set',
            expected: 'the URL to notify',
            todo: 'set FILLRATE_NOTIFY_URL in the environment, or `url` here',
          },
        ]
      : [],
  )
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}

/** Requires a budget for live sync, which starts by itself. */
function requireBudgets(config: Config): void {
  if (config.liveSync.budget !== null) return
  const problems = listFollowed(config.sources).map((name): Problem => ({
    place: `sources.${name}.follow`,
    found: 'no budget',
    expected: 'a maximum number of lookups a day',
    todo: "set `budget` in the configuration: a number of lookups, or 'unlimited', or `liveSync: { budget }`",
  }))
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}

export interface WorkOptions {
  /** Stops taking work, finishes work in progress, and saves the state. */
  readonly signal: AbortSignal
  /** Notified when the receiver has stored a delivery. */
  readonly deliveries: WakeSignal
  /** A source that was broken fits its table again: to be opened anew. */
  readonly onMended: () => void
}

/** Settles and writes back deliveries: a nightly `fillrate run --wait 0` need not wait for them. */
export async function settleDeliveries(
  deps: SourceDeps,
  services: readonly MaintenanceDeps[],
  options: WorkOptions,
): Promise<void> {
  // No run waits for what this process does.
  const runs = { fail: () => {} }
  const tasks = services.flatMap((service) =>
    new Workers(service, { ...options, sources: [...service.sources.values()], calls: null }).tasks(),
  )
  await Promise.all(tasks.map((task) => supervise(deps, runs, task, options.signal)))
}

interface ServiceDeps extends SourceDeps {
  /** Each service of the configuration, in their order. */
  readonly services: readonly RunDeps[]
  readonly config: Pick<Config, 'schedule' | 'keep' | 'budget' | 'services' | 'liveSync' | 'sources'>
  readonly state: ProcessState
}

/**
 * How long a run of the daemon waits for its deliveries when nothing else is left, as `fillrate run`
 * does by default.
 */
const DELIVERY_WAIT_MS = 30 * 60_000

/** Executes a run in the workers of this process. */
const runInWorkers = (
  services: readonly ServiceProcess[],
  run: RunSpec & Pick<ExecuteRunOptions, 'trigger' | 'mixed'>,
  options: ScheduledRunOptions,
): Promise<ScheduledRunEnd> => executeRun(services, { ...run, ...options, waitMs: DELIVERY_WAIT_MS })

/** How often it is looked for runs that are due. */
const SCHEDULE_POLL_MS = 1_000
/** How often the change queue is polled while idle. */
const LIVE_SYNC_POLL_MS = 250
/** Interval between retention passes, and pause between two batches. */
const RETENTION_INTERVAL_MS = 10 * 60_000
const RETENTION_PACE_MS = 200

/**
 * Runs one configuration: schedule, live sync, and the tasks of all their runs in one set of workers. A
 * failed task is restarted after a while; runs that depend on it fail.
 */
export async function runConfig(deps: ServiceDeps, options: WorkOptions): Promise<void> {
  const { db, log, config, owner } = deps
  const { signal } = options
  const services = deps.services.map((service) => ({
    deps: service,
    workers: new Workers(service, { ...options, sources: [...service.sources.values()], calls: service }),
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
        execute: ({ work }, options) => runInWorkers(services, { ...work, trigger: 'manual' }, options),
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
        return SCHEDULE_POLL_MS
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
  // Otherwise its lease expires, and its runs are found dead: a shutdown does not wait for Postgres to return, nor fail with it.
  if (sources.length > 0) await releaseWithin(LEASE_MS, () => follow.stop())
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
async function supervise(
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
