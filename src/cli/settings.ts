import type { Logger } from 'pino'
import type { App } from '../app.ts'
import type { Config } from '../config/config.ts'
import { type Environment, readEnvironment, requireDatabaseUrl } from '../config/environment.ts'
import type { Context, Invocation } from './command.ts'
import { createSecretMask } from './secret-mask.ts'
import { ConfigProblems } from '../config/problems.ts'
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
export async function readSettings(invocation: Invocation, context: Context): Promise<Settings> {
  const environment = readEnvironment(context.env)
  const config = await readConfig(invocation, context)
  return { config, environment, log: await openLog(invocation, context, environment) }
}

/** @throws ConfigProblems */
export async function readConfig(
  { flags }: Pick<Invocation, 'flags'>,
  { cwd }: Pick<Context, 'cwd'>,
): Promise<Config> {
  const { loadConfig } = await import('../config/load.ts')
  return loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })
}

/** The configuration for what works without one; its problems, unless --config names it. */
export async function readConfigOrProblems(
  invocation: Pick<Invocation, 'flags'>,
  context: Pick<Context, 'cwd'>,
): Promise<Config | ConfigProblems> {
  try {
    return await readConfig(invocation, context)
  } catch (error) {
    if (error instanceof ConfigProblems && invocation.flags.config === null) return error
    throw error
  }
}

/**
 * Opens the app for the duration of `act`. It is imported here, so that help does not load a database driver.
 * @throws ConfigProblems
 */
export async function withApp<Result>(
  invocation: Invocation,
  context: Context,
  act: (app: App, settings: Settings) => Promise<Result>,
): Promise<Result> {
  const settings = await readSettings(invocation, context)
  const { openApp } = await import('../app.ts')
  const open = (): Promise<App> => openApp(settings)
  const app = invocation.command.waitsForDatabase
    ? await openWhenStarted(open, settings.log, context.signal)
    : await open()
  try {
    return await act(app, settings)
  } finally {
    await app.close()
  }
}

/** Opens the app once Postgres has restarted, for a command that no one may be watching. */
async function openWhenStarted(open: () => Promise<App>, log: Logger, signal: AbortSignal): Promise<App> {
  const [{ retryWhileStarting }, { formatDuration }] = await Promise.all([
    import('../store/connectivity.ts'),
    import('../util/format.ts'),
  ])
  return retryWhileStarting(open, signal, ({ message: reason }, ms) =>
    log.warn(
      { event: 'postgres_waiting', step: 'start', reason, ms },
      `Postgres is not available (${reason}): waiting for ${formatDuration(ms)} at most`,
    ),
  )
}

/**
 * Opens the log of a command: for people on a terminal, else JSON, from cron and in containers too. On a terminal, where
 * progress is shown, it starts at level warn.
 */
export async function openLog(
  { command: { longLived }, flags }: Invocation,
  context: Context,
  environment: Environment,
): Promise<Logger> {
  const { createLog } = await import('./log.ts')
  const { stderr, env } = context
  const fromEnvironment =
    env['LOG_LEVEL'] === undefined || env['LOG_LEVEL'].trim() === '' ? null : environment.logLevel
  const defaultLevel = stderr.isTTY && !longLived ? 'warn' : 'info'
  return createLog({
    level: flags.logLevel ?? fromEnvironment ?? defaultLevel,
    format: flags.logFormat ?? (stderr.isTTY ? 'pretty' : 'json'),
    output: stderr,
    mask: createSecretMask(env),
  })
}

/** SQLSTATE classes 42 (syntax, unknown name), 22 (data exception) and 0A (not supported). */
const INVALID_SQL = /^(?:42|22|0A)/

/**
 * Runs `act`. If Postgres rejects its SQL and there is a `--where`, that condition is the reason: the rest of the statement
 * was tried when the sources were opened.
 */
export async function explainWhereError<Result>(
  where: string | null,
  act: () => Promise<Result>,
): Promise<Result> {
  try {
    return await act()
  } catch (error) {
    if (
      where === null ||
      !(error instanceof Error) ||
      !INVALID_SQL.test((error as { code?: string }).code ?? '')
    )
      throw error
    const problem = {
      place: '--where',
      found: `${where}\n${error.message}`,
      expected: 'an SQL condition over the source, whose table is t',
      todo: 'Quote it for the shell: --where "t.country = \'NO\'".',
    }
    throw new ConfigProblems('the command', [problem], { cause: error })
  }
}

/**
 * Opens the database for the duration of `act`, for a command that needs nothing else.
 * @throws ConfigProblems without a DATABASE_URL
 */
export async function withDatabase<Result>(
  context: Pick<Context, 'env'>,
  act: (db: Database, environment: Environment) => Promise<Result>,
): Promise<Result> {
  const environment = readEnvironment(context.env)
  const url = requireDatabaseUrl(environment)
  const [{ openDatabase }, { pendingMigrations }] = await Promise.all([
    import('../store/open.ts'),
    import('../store/migrate.ts'),
  ])
  const db = openDatabase({ url, max: 2 })
  try {
    return await act(db, environment)
  } catch (error) {
    // Unknown tables and columns: a schema from before the first release is reported as such.
    if (/^42(?:P01|703)$/.test((error as { code?: string }).code ?? '')) await pendingMigrations(db)
    throw error
  } finally {
    await db.destroy()
  }
}
