import type { Context, ExitCode, Invocation } from './command.ts'
import { parseCommandLine } from './parse.ts'
import { renderError } from './views/errors.ts'
import { writeJson } from './terminal.ts'

export interface CliOptions {
  readonly words: readonly string[]
  /** Called once the command is known: the behaviour at the first signal depends on it. */
  readonly contextFor: (invocation: Invocation | null) => Context
}

/** Runs the program without the process: arguments in, exit code out. Never throws. */
export async function runCli({ words, contextFor }: CliOptions): Promise<ExitCode> {
  let invocation: Invocation | null = null
  let context: Context | null = null
  try {
    invocation = parseCommandLine(words)
    context = contextFor(invocation)
    return await invocation.command.handler(invocation, context)
  } catch (error) {
    return printError(error, invocation, context ?? contextFor(invocation), wantsJson(words))
  }
}

/** Whether `--json` is on a command line, also on one that cannot be parsed. */
export const wantsJson = (words: readonly string[]): boolean => {
  const end = words.indexOf('--')
  return (end < 0 ? words : words.slice(0, end)).includes('--json')
}

/** Prints an error to standard error, and with `--json` as JSON to standard output. */
export function printError(
  error: unknown,
  invocation: Invocation | null,
  context: Context,
  isJson: boolean,
): ExitCode {
  const { env, stderr, stdout, signal } = context
  const level = invocation?.flags.logLevel ?? env['LOG_LEVEL']
  const shown = renderError(error, {
    env,
    paint: stderr.paint,
    columns: stderr.textColumns,
    stack: level === 'debug' || level === 'trace',
    interrupted: signal.aborted,
  })
  stderr.live([])
  stderr.write(shown.text)
  if (isJson) writeJson(stdout, shown.json)
  return shown.exit
}
