import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { readEnvironment, type Environment } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import type { Command } from './command.ts'
import type { Context } from './context.ts'
import { declarations } from './declarations.ts'
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
export async function readSettings(command: Command, context: Context): Promise<Settings> {
  const environment = readEnvironment(context.env)
  const config = await readConfig(command, context)
  return { config, environment, log: openLog(command, context, environment) }
}

/** @throws ConfigProblems */
export function readConfig({ flags }: Command, { cwd }: Pick<Context, 'cwd'>): Promise<Config> {
  return loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })
}

/**
 * The log of a command. On a terminal where progress is shown it holds only what is unusual; that of a process which
 * runs for ever is read by programs where there is no terminal, every other one by whoever reads cron's mail.
 */
export function openLog(command: Command, context: Context, environment: Environment): Logger {
  const { stderr, env } = context
  const { longLived } = declarations[command.verb]
  const fromEnvironment =
    env['LOG_LEVEL'] === undefined || env['LOG_LEVEL'].trim() === '' ? null : environment.logLevel
  const usual = stderr.isTTY && !longLived ? 'warn' : 'info'
  return createLog({
    level: command.flags.logLevel ?? fromEnvironment ?? usual,
    format: stderr.isTTY || !longLived ? 'short' : 'json',
    output: stderr,
    mask: secretsMask(env),
  })
}
