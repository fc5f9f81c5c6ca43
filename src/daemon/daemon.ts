import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { RowHistory } from '../actions/explain/row-history.ts'
import type { Source } from '../sources/source.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { isConflict } from '../store/transaction.ts'
import { SchemaMissingError } from '../store/migrate.ts'
import { openDatabase } from '../store/open.ts'
import { isTransient } from '../store/connectivity.ts'
import { runWithReload, type Instance } from './reload.ts'
import { openReceiver, type Receiver } from '../http/receiver.ts'

/** Fillrate opened with one configuration. */
export interface DaemonApp {
  readonly sources: ReadonlyMap<string, Source>
  explain(source: string, key: string): Promise<RowHistory>
  start(options: {
    readonly signal: AbortSignal
    readonly receiver: Pick<Receiver, 'publicUrl'>
    /** Notified when the receiver has stored a delivery. */
    readonly deliveries: WakeSignal
  }): Promise<void>
  close(): Promise<void>
}

export interface DaemonOptions {
  readonly environment: Environment & { readonly databaseUrl: string }
  readonly log: Logger
  readonly signal: AbortSignal
  readonly onReload: (listener: () => void) => void
  /** @throws ConfigProblems */
  readonly readConfig: () => Promise<Config>
  /** Checks a configuration against the database and opens it. */
  readonly open: (config: Config) => Promise<DaemonApp>
  readonly onListening: (listens: string | null) => void
  /** Called when a configuration takes effect. */
  readonly onConfig: (config: Config) => void
}

/**
 * `fillrate start`: the receiver, open from the start, and one instance per configuration. Waits until Postgres and
 * the schema are available; `/readyz` reports the reason.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { environment, log, signal } = options
  const db = openDatabase({
    url: environment.databaseUrl,
    max: 4,
    name: 'fillrate receiver',
    onLost: (error) => log.warn({ reason: error.message }, 'lost an idle connection to Postgres'),
  })
  let app: DaemonApp | null = null
  const deliveries = new WakeSignal()
  const open = (): Promise<Receiver> =>
    openReceiver({
      db,
      environment,
      log,
      deliveries,
      dashboard: {
        sources: () => app?.sources ?? new Map(),
        explain: async (source, key) => {
          if (app === null) throw new Error('no configuration is loaded yet')
          return app.explain(source, key)
        },
      },
    })
  const ended = new AbortController()
  let receiver = await open()
  options.onListening(receiver.url)
  // The process that has the port may be the one that this process replaces.
  const taking = takeOverPort(receiver, open, AbortSignal.any([signal, ended.signal]), (taken) => {
    receiver = taken
    options.onListening(taken.url)
  })

  const openGeneration = async (): Promise<Instance> => {
    const config = await options.readConfig()
    requireBudgets(config)
    requireNotifyUrls(config, environment)
    const opened = await options.open(config)
    return {
      run: (until) => {
        app = opened
        options.onConfig(config)
        return opened.start({
          signal: until,
          receiver,
          deliveries,
        })
      },
      close: () => opened.close(),
    }
  }
  try {
    await runWithReload({
      open: openGeneration,
      signal,
      onReload: options.onReload,
      log,
      waitFor: (error) =>
        error instanceof SchemaMissingError
          ? 'the schema "fillrate"'
          : isTransient(error) || isConflict(error)
            ? 'Postgres'
            : null,
    })
  } finally {
    ended.abort()
    await taking
    await receiver.close()
    await db.destroy()
  }
}

const PORT_POLL_MS = 2_000

async function takeOverPort(
  first: Receiver,
  open: () => Promise<Receiver>,
  signal: AbortSignal,
  onTaken: (receiver: Receiver) => void,
): Promise<void> {
  if (first.url !== null) return
  while (!signal.aborted) {
    await sleep(PORT_POLL_MS, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const receiver = await open().catch(() => null)
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
  if (config.budget !== null) return
  const todo = "set `budget` in the configuration: a number of lookups, or 'unlimited'"
  const expected = 'a maximum number of lookups'
  const problems: Problem[] = [
    ...config.schedule.flatMap((entry, n) =>
      entry.budget === null ? [{ place: `schedule[${n}].budget`, found: 'none', expected, todo }] : [],
    ),
    ...Object.values(config.sources)
      .filter((source) => source.follow)
      .map(({ name }) => ({
        place: `sources.${name}.follow`,
        found: 'no budget',
        expected: `${expected} a day`,
        todo,
      })),
  ]
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}
