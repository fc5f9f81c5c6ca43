import { type CliCall, type Context, Exit, type ExitCode, type Invocation, printAnswer } from './command.ts'
import { DeniedError } from './confirm.ts'
import { parseCommandLine } from './parse.ts'
import { renderError } from './views/errors.ts'
import { writeJson } from './terminal.ts'

interface CliOptions {
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
    return await execute(invocation, context)
  } catch (error) {
    return printError(error, invocation, context ?? contextFor(invocation), wantsJson(words))
  }
}

/** Runs a command, prints its answer, and closes the app or database that it opened. */
async function execute(invocation: Invocation, context: Context): Promise<ExitCode> {
  const closing: Parameters<CliCall['onEnd']>[0][] = []
  const call = {
    ...context,
    ...invocation,
    onEnd: (close: (typeof closing)[0]) => void closing.unshift(close),
    runCommand: (words: readonly string[], given: Context) => runCli({ words, contextFor: () => given }),
  }
  try {
    const answer = await invocation.command.handler(call)
    context.stderr.live([])
    if (typeof answer === 'number') return answer
    printAnswer(call, answer)
    return answer.exit ?? Exit.done
  } catch (error) {
    if (!(error instanceof DeniedError)) throw error
    context.stdout.line(error.message)
    return context.signal.aborted ? Exit.interrupted : Exit.failed
  } finally {
    for (const close of closing) await close()
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
