import type { Logger } from 'pino'
import type { AuditEnd } from '../actions/audit.ts'
import type { App, AppOptions } from '../app.ts'
import type { Config } from '../config/config.ts'
import { readEnvironment, requireDatabaseUrl, type Environment } from '../config/environment.ts'
import type { CliCall } from './command.ts'
import { createSecretMask } from './secret-mask.ts'
import { formatDuration } from '../util/text.ts'
import type { Actor, NewAuditEvent } from '../store/audit.ts'
import type { Database } from '../store/open.ts'

export interface Settings {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
}

/**
 * Reads the configuration and the environment, and opens the log.
 * @throws ConfigProblems
 */
export async function readSettings(call: CliCall): Promise<Settings> {
  const environment = readEnvironment(call.env)
  const config = await readConfig(call)
  return { config, environment, log: await openLog(call, environment) }
}

/** @throws ConfigProblems */
export async function readConfig({ flags, cwd }: CliCall): Promise<Config> {
  const { loadConfig } = await import('../config/load.ts')
  return loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })
}

/**
 * Opens the app until the command is over. It is imported here, so that help does not load a database driver.
 * @throws ConfigProblems
 */
export async function useApp(
  call: CliCall,
  { port = null, ...options }: Pick<AppOptions, 'opensUnreviewed'> & { readonly port?: number | null } = {},
): Promise<Settings & { readonly app: App }> {
  const read = await readSettings(call)
  const settings = { ...read, environment: { ...read.environment, port: port ?? read.environment.port } }
  const { openApp } = await import('../app.ts')
  const { retryWhileStarting } = await import('../store/transaction.ts')
  const onWait = ({ message: reason }: Error, ms: number): void =>
    settings.log.warn(
      { event: 'postgres_waiting', step: 'start', reason, ms },
      `Postgres is not available (${reason}): waiting for ${formatDuration(ms)} at most`,
    )
  const open = (): Promise<App> => openApp({ ...settings, ...options })
  const app = await (call.command.waitsForDatabase ? retryWhileStarting(open, call.signal, onWait) : open())
  call.onEnd(() => app.close())
  return { ...settings, app }
}

/**
 * Opens the log of a command: for people on a terminal, else JSON, from cron and in containers too. On a
 * terminal, where progress is shown, it starts at level warn.
 */
export async function openLog(
  { command: { longLived }, stderr, env }: CliCall,
  environment = readEnvironment(env),
): Promise<Logger> {
  const { createLog } = await import('./log.ts')
  const defaultLevel = stderr.isTTY && !longLived ? 'warn' : 'info'
  return createLog({
    level: environment.logLevel ?? defaultLevel,
    format: stderr.isTTY ? 'pretty' : 'json',
    output: stderr,
    mask: createSecretMask(env),
  })
}

/**
 * Opens the database until the command is over, for a command that needs nothing else.
 * @throws ConfigProblems without a DATABASE_URL, UnusableSchemaError
 */
export async function useDatabase(call: CliCall): Promise<Database> {
  const url = requireDatabaseUrl(readEnvironment(call.env))
  const { openDatabase } = await import('../store/open.ts')
  const { pendingMigrations } = await import('../store/migrate.ts')
  // `init` reads with four; the others open one or two.
  const db = openDatabase({ url, max: 4 })
  call.onEnd(() => db.destroy())
  // Refuses a schema that this version cannot work with. One that is missing or older shows itself by what it lacks.
  await pendingMigrations(db)
  return db
}

/**
 * Does something that changes data, and records it in the audit list as an action of the user of this process.
 * @param event null: a dry run, which is not recorded
 */
export async function auditCommand<Result>(
  db: Database,
  event: Omit<NewAuditEvent, 'actor' | 'requestId'> | null,
  act: (actor: Actor) => Promise<Result>,
  describe: (result: Result) => AuditEnd,
): Promise<Result> {
  const { auditAction, createLocalActor } = await import('../actions/audit.ts')
  const actor = createLocalActor('command line')
  if (event === null) return act(actor)
  return auditAction(db, { actor, ...event }, () => act(actor), describe)
}
