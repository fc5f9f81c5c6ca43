import { CommanderError } from '@commander-js/extra-typings'
import { maskPasswords, sanitize } from '../util/text.ts'
import {
  type CliCall,
  type CliCommand,
  type Context,
  Exit,
  type ExitCode,
  type Invocation,
  UsageError,
  printAnswer,
  program,
} from './command.ts'
import { commands, findCommand } from './commands.ts'
import { DeniedError } from './confirm.ts'
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
    const parsed = parseCommandLine(words)
    if (typeof parsed === 'string') {
      contextFor(null).stdout.write(parsed)
      return Exit.done
    }
    invocation = parsed
    context = contextFor(invocation)
    return await execute(invocation, context)
  } catch (error) {
    return printError(error, invocation, context ?? contextFor(invocation), wantsJson(words))
  }
}

/** What commander has printed: help, or the version. */
let printed = ''
const output = { writeOut: collect, writeErr: collect }
program.configureOutput(output)
for (const { parser } of commands) program.addCommand(parser.configureOutput(output))

function collect(text: string): void {
  printed += text
}

/**
 * Parses a command line, without the name of the program. Pure.
 * @returns a text where it is for help or the version
 * @throws UsageError, with the nearest right word if there is one
 */
export function parseCommandLine(words: readonly string[]): Invocation | string {
  let parsed: CliCommand | null = null
  for (const command of commands) command.parser.action(() => void (parsed = command))
  printed = ''
  try {
    program.parse(words, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (/^commander\.(?:help|helpDisplayed|version)$/.test(error.code)) return printed
    const message = sanitize(maskPasswords(error.message.replace(/^error: /, '').replaceAll('\n', ' ')))
    throw new UsageError(words.map(findCommand).find((one) => one !== null) ?? null, message)
  }
  const command = parsed as unknown as CliCommand
  const { parser } = command
  return { command, args: parser.processedArgs, flags: parser.optsWithGlobals() as Invocation['flags'] }
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
    context.stderr.live('')
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
  stderr.live('')
  stderr.write(shown.text)
  if (isJson) writeJson(stdout, shown.json)
  return shown.exit
}
