import type { Logger } from 'pino'
import type { App } from '../app.ts'
import type { Config } from '../config/config.ts'
import { readEnvironment, type Environment } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import type { Invocation } from './command.ts'
import type { Context } from './context.ts'
import { createLog } from './log.ts'
import { secretsMask } from './secrets.ts'

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
    mask: secretsMask(env),
  })
}
