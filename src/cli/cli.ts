import { CommanderError } from '@commander-js/extra-typings'
import { maskPasswords, sanitize, pluralize } from '../util/text.ts'
import {
  Exit,
  UsageError,
  printAnswer,
  program,
  type CliCall,
  type CliCommand,
  type Context,
  type ExitCode,
  type Invocation,
} from './command.ts'
import { commands, findCommand } from './commands.ts'
import { writeJson, type Paint } from './terminal.ts'
import { ConfigProblems, formatProblems, type Problem } from '../config/problems.ts'
import { describeError } from '../util/error-text.ts'
import { SourceProblems, mergeGrantProblems, showFound } from '../sources/problems.ts'
import { createSecretMask } from './secret-mask.ts'
import {
  createSchemaProblem,
  databaseAddress,
  explainDatabaseError,
  explainRefusal,
} from './views/database-error.ts'

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
    return printError(error, context ?? contextFor(invocation), wantsJson(words))
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
    throw new UsageError(words.map(findCommand).find((command) => command !== null) ?? null, message)
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
export function printError(error: unknown, context: Context, isJson: boolean): ExitCode {
  const { env, stderr, stdout, signal } = context
  const level = env['LOG_LEVEL']
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

export interface ErrorViewOptions {
  readonly env: NodeJS.ProcessEnv
  readonly paint: Paint
  /** The width of running text. Default: 100. */
  readonly columns?: number
  /** Whether an unexpected error includes its stack. */
  readonly stack: boolean
  /** The command was interrupted. */
  readonly interrupted: boolean
}

/** An error as it is shown, before secrets are masked. */
interface DescribedError {
  readonly exit: ExitCode
  readonly kind: string
  readonly message: string
  /** What follows the message in the text. */
  readonly more?: string
  readonly problems?: readonly Problem[]
}

/** Errors whose message says everything, by name: their modules are loaded by the commands that throw them. */
const PLAIN_ERRORS: Readonly<Record<string, readonly [ExitCode, kind: string]>> = {
  UnusableSchemaError: [Exit.usage, 'schema'],
  MigrationBlockedError: [Exit.failed, 'schema'],
  MigrationDeniedError: [Exit.usage, 'schema'],
  OldProcessesError: [Exit.failed, 'schema'],
  LeaseLostError: [Exit.failed, 'lease_lost'],
  ForgetUnfinishedError: [Exit.failed, 'forget_unfinished'],
}

/**
 * Renders an error for standard error, and as JSON, and chooses the exit code, for all commands. An error that the user can
 * fix says how, and has problems in JSON; any other shows its message, and its stack only at log level debug or trace.
 */
export function renderError(error: unknown, view: ErrorViewOptions) {
  const mask = createSecretMask(view.env)
  const { exit, kind, message, more = '', problems = [] } = describeCommandError(error, view)
  return {
    exit,
    text: `${view.paint('bad', 'fillrate:')} ${mask(message + more)}\n`,
    json: {
      error: { kind, message: mask(message), problems: problems.map((problem) => masked(problem, mask)) },
    },
  }
}

function describeCommandError(error: unknown, view: ErrorViewOptions): DescribedError {
  const url = view.env['DATABASE_URL']
  /** Problems that the user can fix, under a heading that says where they are. */
  const list = (
    exit: ExitCode,
    kind: string,
    problems: readonly Problem[],
    where = 'the database',
  ): DescribedError => ({
    exit,
    kind,
    message: `${pluralize(problems.length, 'problem')} in ${where}:`,
    more: `\n\n${formatProblems(problems, view.columns)}`,
    problems,
  })
  if (error instanceof UsageError) return describeUsage(error, view.paint)
  if (view.interrupted && isAbort(error))
    return { exit: Exit.interrupted, kind: 'interrupted', message: 'interrupted' }
  if (error instanceof ConfigProblems) return list(Exit.usage, 'configuration', error.problems, error.where)
  if (error instanceof SourceProblems) {
    const problems = mergeGrantProblems(error.problems).map((problem) => ({
      ...problem,
      place: `sources.${problem.source}.${problem.place}`,
      found: showFound(problem),
    }))
    return list(Exit.usage, 'sources', problems, 'the mapping of the database')
  }
  if (error instanceof Error) {
    // Its last line may be a command, or output of Postgres.
    if (error.name === 'DemoError') return { exit: Exit.failed, kind: 'demo', message: error.message }
    if (error.name === 'SchemaMissingError')
      return list(Exit.usage, 'schema', [createSchemaProblem(databaseAddress(url))])
    const [exit, kind] = PLAIN_ERRORS[error.name] ?? []
    if (exit !== undefined && kind !== undefined) return { exit, kind, message: sentence(error.message) }
  }
  const problem = explainDatabaseError(error, url)
  if (problem !== null) return list(Exit.usage, 'database', [problem])
  const refusal = explainRefusal(error, url)
  if (refusal !== null) return list(Exit.failed, 'database', [refusal])
  // Of a command that is run by a schedule, what is written here is a log: values at level debug only.
  const message = maskPasswords(
    error instanceof Error
      ? `${error.name}: ${view.stack ? error.message : describeError(error)}`
      : 'unknown error',
  )
  const more = view.stack
    ? `\n${maskPasswords(stackOf(error))}`
    : '\n  Set LOG_LEVEL=debug for details. Saved state is kept.'
  return { exit: Exit.failed, kind: 'unexpected', message: `unexpected ${message}`, more }
}

function describeUsage({ message, usage, help, suggestion }: UsageError, paint: Paint): DescribedError {
  return {
    exit: Exit.usage,
    kind: 'usage',
    message: `${sentence(message)}${suggestion === null ? '' : ` ${suggestion}`}`,
    more: `\n\n  ${paint('heading', 'Usage')}  ${usage}\n  ${paint('heading', 'Help')}   ${paint('type', help)}`,
    problems: [
      {
        place: 'the command line',
        found: message,
        expected: usage,
        todo: suggestion ?? `\`${help}\` shows more.`,
      },
    ],
  }
}

const masked = (problem: Problem, mask: (text: string) => string): Problem => ({
  place: mask(problem.place),
  found: mask(problem.found),
  expected: mask(problem.expected),
  todo: problem.todo === null ? null : mask(problem.todo),
})

const sentence = (message: string): string => (/[.!?…]$/.test(message) ? message : `${message}.`)

const isAbort = (error: unknown): boolean =>
  error instanceof Error && (error.name === 'AbortError' || (error as { code?: string }).code === 'ABORT_ERR')

/** The stack with its causes, without other properties: those of a database error can contain values of a row. */
function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `\n  caused by ${stackOf(error.cause)}`
  return `${error.stack ?? error.message}${cause}`
}
