import type { Service } from '../domain/service/service.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Log } from '../util/log.ts'
import type { RowHistory } from '../actions/explain/row-history.ts'
import { NO_SPEND_SETTINGS } from '../actions/spend.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { isConflict } from '../store/transaction.ts'
import { SchemaMissingError } from '../store/migrate.ts'
import { openDatabase, type Database } from '../store/open.ts'
import { isTransient } from '../store/connectivity.ts'
import { runWithReload, toOneLine, type Instance } from './reload.ts'
import type { DashboardApp } from '../http/dashboard/dashboard-app.ts'
import { listDueTimes } from '../config/cron.ts'
import { OwnTroubles } from './own-troubles.ts'
import type { ServiceOptions } from './service.ts'
import { startTroubleWatch, type TroubleNotifier } from './trouble-watch.ts'
import { openReceiver, type Receiver } from '../http/receiver.ts'

/** Fillrate opened with one configuration. */
export interface DaemonApp extends DashboardApp {
  /** The sources of its configuration, by name: also those that are broken. */
  readonly mappings: ReadonlyMap<string, SourceMapping>
  /** The history of one row. */
  explain(source: string, key: string): Promise<RowHistory>
  readonly notifier: TroubleNotifier
  /** The daemon with this configuration, behind a receiver that is already open. */
  start(options: ServiceOptions & { readonly receiver: Pick<Receiver, 'publicUrl'> }): Promise<void>
  close(): Promise<void>
}

export interface DaemonOptions {
  readonly environment: Environment & { readonly databaseUrl: string }
  readonly log: Log
  readonly signal: AbortSignal
  readonly onReload: (listener: () => void) => void
  /** @throws ConfigProblems */
  readonly readConfig: () => Promise<Config>
  /** Checks a configuration against the database and opens it. It adds to `own` what it learns to be wrong. */
  readonly open: (
    config: Config,
    own: OwnTroubles,
    isRequired: (mapping: SourceMapping) => boolean,
  ) => Promise<DaemonApp>
  readonly onListening: (listens: string | null) => void
  /** Called when a configuration takes effect. */
  readonly onConfig: (config: Config) => void
}

/**
 * `fillrate start`: the receiver, open from the start, and one instance per configuration. Waits until Postgres and
 * the schema are available; `/readyz` reports the reason.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { environment, log } = options
  const own = new OwnTroubles()
  const db = openDatabase({
    url: environment.databaseUrl,
    max: 4,
    name: 'fillrate receiver',
    ...own.watchConnections(log),
  })
  try {
    await runGenerations(options, own, db)
  } finally {
    await db.destroy()
  }
}

async function runGenerations(options: DaemonOptions, own: OwnTroubles, db: Database): Promise<void> {
  const { environment, log, signal } = options
  let app: DaemonApp | null = null
  let spendSettings = NO_SPEND_SETTINGS
  // Null until the configuration is read: how deliveries are signed is not known before.
  let service: Service | null = null
  let config: Config | null = null
  /** The next configuration is the current one: only what was broken has changed. */
  let isReopening = false
  let reload = (): void => {}
  const schedules = () => config && listDueTimes(config.schedule, Date.now())
  const deliveries = new WakeSignal()
  const open = (): Promise<Receiver> =>
    openReceiver({
      db,
      environment,
      log,
      service: () => service,
      deliveries,
      dashboard: {
        sources: () => app?.mappings ?? new Map(),
        spendSettings: () => spendSettings,
        observer: () => ({ own: own.list(), schedules: schedules() }),
        explain: async (source, key) => {
          if (app === null) throw new Error('no configuration is loaded yet')
          return app.explain(source, key)
        },
        app: () => app,
      },
    })
  const ended = new AbortController()
  // First: a process that cannot listen ends, and has neither watched nor recorded anything.
  let receiver = await open()
  options.onListening(receiver.url)
  // Open from the start, as the receiver is, and through every reload.
  const watch = startTroubleWatch({
    db,
    log,
    own,
    schedules,
    notifier: () => app?.notifier ?? null,
  })
  // The process that has the port may be the one that this process replaces.
  const taking = takeOverPort(receiver, open, log, AbortSignal.any([signal, ended.signal]), (taken) => {
    receiver = taken
    options.onListening(taken.url)
  })

  const openGeneration = async (): Promise<Instance> => {
    const before = config
    const read = isReopening && before !== null ? before : await options.readConfig()
    isReopening = false
    service ??= read.adapter
    requireBudgets(read)
    requireNotifyUrls(read, environment)
    // What is new must be right; of what was active already, the database is to blame.
    const isNew = (mapping: SourceMapping): boolean =>
      before !== null && !isDeepStrictEqual(before.sources[mapping.name], mapping)
    const opened = await options.open(read, own, isNew)
    return {
      run: (until) => {
        app = opened
        spendSettings = read
        config = read
        service = read.adapter
        options.onConfig(read)
        return opened.start({
          signal: until,
          receiver,
          deliveries,
          onMended: () => {
            isReopening = true
            reload()
          },
        })
      },
      close: () => opened.close(),
    }
  }
  try {
    await runWithReload({
      open: openGeneration,
      signal,
      onReload: (listener) => {
        reload = listener
        options.onReload(() => {
          isReopening = false
          listener()
        })
      },
      own,
      log,
      waitFor: (error) =>
        error instanceof SchemaMissingError
          ? 'the schema'
          : isTransient(error) || isConflict(error)
            ? 'Postgres'
            : null,
    })
  } finally {
    ended.abort()
    await taking
    await receiver.close()
    await watch.stop()
  }
}

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
    const reason = toOneLine(error)
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

/** Requires a budget for everything that starts by itself. */
function requireBudgets(config: Config): void {
  const todo = "set `budget` in the configuration: a number of lookups, or 'unlimited'"
  const expected = 'a maximum number of lookups'
  const problems: Problem[] = [
    ...config.schedule.flatMap((entry, n) =>
      entry.budget === null && config.budget === null
        ? [{ place: `schedule[${n}].budget`, found: 'none', expected, todo }]
        : [],
    ),
    ...Object.values(config.sources)
      .filter((source) => source.follow && Object.values(config.liveSync).includes(null))
      .map(({ name }) => ({
        place: `sources.${name}.follow`,
        found: config.liveSync.budget === null ? 'no budget' : 'no budget for imports',
        expected: `${expected} a day`,
        todo: `${todo}, or \`liveSync: { budget, importBudget }\``,
      })),
  ]
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}
