import type { Logger } from 'pino'
import type { App } from '../app.ts'
import type { Config } from '../config/config.ts'
import { type Environment, readEnvironment, requireDatabaseUrl } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import type { Context, Invocation } from './command.ts'
import { createLog, createSecretMask } from './log.ts'
import { ConfigProblems } from '../config/problems.ts'
import type { Database } from '../store/open.ts'

export interface Settings {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
}

/**
 * What a command that works with sources needs.
 * @throws ConfigProblems
 */
export async function readSettings(invocation: Invocation, context: Context): Promise<Settings> {
  const environment = readEnvironment(context.env)
  const config = await readConfig(invocation, context)
  return { config, environment, log: openLog(invocation, context, environment) }
}

/** @throws ConfigProblems */
export function readConfig(
  { flags }: Pick<Invocation, 'flags'>,
  { cwd }: Pick<Context, 'cwd'>,
): Promise<Config> {
  return loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })
}

/**
 * Opens the app for a command, and closes it again. It is imported here, so that help does not wait for a database
 * driver.
 * @throws ConfigProblems
 */
export async function withApp<Result>(
  invocation: Invocation,
  context: Context,
  act: (app: App, settings: Settings) => Promise<Result>,
): Promise<Result> {
  const settings = await readSettings(invocation, context)
  const { openApp } = await import('../app.ts')
  const app = await openApp(settings)
  try {
    return await act(app, settings)
  } finally {
    await app.close()
  }
}

/**
 * The log of a command. On a terminal where progress is shown it holds only what is unusual; that of a process which
 * runs for ever is read by programs where there is no terminal, every other one by whoever reads cron's mail.
 */
export function openLog(
  { command: { longLived }, flags }: Invocation,
  context: Context,
  environment: Environment,
): Logger {
  const { stderr, env } = context
  const fromEnvironment =
    env['LOG_LEVEL'] === undefined || env['LOG_LEVEL'].trim() === '' ? null : environment.logLevel
  const usual = stderr.isTTY && !longLived ? 'warn' : 'info'
  return createLog({
    level: flags.logLevel ?? fromEnvironment ?? usual,
    format: stderr.isTTY || !longLived ? 'short' : 'json',
    output: stderr,
    mask: createSecretMask(env),
  })
}

/** SQLSTATE class 42 is what Postgres can't read or find; 22 and 0A are what it can't compute or allow. */
const WRONG_SQL = /^(?:42|22|0A)/

/**
 * Does `act`; where Postgres objects to SQL while there is a `--where`, that is what it objects to: everything else in
 * the statement has been tried when the sources were opened.
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
      !WRONG_SQL.test((error as { code?: string }).code ?? '')
    )
      throw error
    const problem = {
      place: '--where',
      found: `${where}\n${error.message}`,
      expected: 'an SQL condition over the source, whose table is t',
      todo: 'Put it in quotes, so that the shell leaves it whole: --where "t.country = \'NO\'".',
    }
    throw new ConfigProblems('the command', [problem], { cause: error })
  }
}

/**
 * Opens the database of the environment for a command that needs nothing else, and closes it again.
 * @throws ConfigProblems where there is no DATABASE_URL
 */
export async function withDatabase<Result>(
  context: Pick<Context, 'env'>,
  act: (db: Database, environment: Environment) => Promise<Result>,
): Promise<Result> {
  const environment = readEnvironment(context.env)
  const url = requireDatabaseUrl(environment)
  const { openDatabase } = await import('../store/open.ts')
  const db = openDatabase({ url, max: 2 })
  try {
    return await act(db, environment)
  } finally {
    await db.destroy()
  }
}
