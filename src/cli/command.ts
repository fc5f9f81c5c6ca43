import { Command, type CommandUnknownOpts, type OptionValues } from '@commander-js/extra-typings'
import { LOG_LEVELS } from '../config/environment.ts'
import { booleanOption, formatChoices, choiceOption, textOption } from './options.ts'
import type { Readable } from 'node:stream'
import type { Output } from './terminal.ts'

/** A parser that throws where commander by itself would print and exit. */
export const createParser = <const Name extends string>(name: Name) =>
  new Command(name)
    .helpOption(false)
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })

/** The program with the options of every command. */
export const program = createParser('fillrate')
  .helpCommand(false)
  .addOption(
    textOption('--config <FILE>', 'the configuration; default: fillrate.config.ts, .js, .mjs or .json here'),
  )
  .addOption(booleanOption('--json', 'one JSON object on standard output, for programs'))
  .addOption(
    choiceOption(
      '--log-level <LEVEL>',
      `how much is told on standard error: ${formatChoices(LOG_LEVELS)}`,
      LOG_LEVELS,
      null,
    ),
  )
  .option('--no-color', 'no colours')
  .addOption(booleanOption('-h, --help', 'this help'))
  .addOption(booleanOption('--version', 'the version'))

export type GlobalFlags = ReturnType<typeof program.opts>

/** What was typed: a command, its arguments and its flags. */
export interface Invocation<Args extends unknown[] = unknown[], Flags extends OptionValues = OptionValues> {
  readonly command: CliCommand
  readonly args: Args
  readonly flags: Flags & GlobalFlags
}

/** What a parser gives, for functions beside a handler. */
export type InvocationOf<Parser extends { processedArgs: unknown[]; opts: () => OptionValues }> = Invocation<
  Parser['processedArgs'],
  ReturnType<Parser['opts']>
>

interface CommandDetails<Args extends unknown[], Flags extends OptionValues> {
  readonly group: 'first' | 'work' | 'look' | 'try' | 'hidden'
  readonly examples: readonly (readonly [command: string, what: string])[]
  readonly exits: readonly ExitCode[]
  readonly environment: readonly EnvironmentVariable[]
  /** How its arguments are written, where that is not one after the other. */
  readonly synopsis: string | null
  /** False where it leaves the terminal to a program: then there is no `--json`. */
  readonly json: boolean
  /** What to say at the first signal, when it then finishes by itself. Null: it stops at once. */
  readonly onInterrupt: string | null
  /** It runs until stopped: where there is no terminal, its log is JSON. */
  readonly longLived: boolean
  /** More for its help: a list of terms. */
  readonly terms: { readonly title: string; readonly list: Readonly<Record<string, string>> } | null
  /** @returns how the process is to end */
  handler(invocation: Invocation<Args, Flags>, context: Context): Promise<ExitCode>
}

/** A command: how it is parsed, what help says, and what it does. */
export interface CliCommand<
  Args extends unknown[] = unknown[],
  Flags extends OptionValues = OptionValues,
> extends CommandDetails<Args, Flags> {
  readonly name: string
  readonly parser: CommandUnknownOpts
}

type Given<Args extends unknown[], Flags extends OptionValues> = Pick<
  CommandDetails<Args, Flags>,
  'group' | 'examples' | 'handler'
> &
  Partial<CommandDetails<Args, Flags>>

/** Declares a command: its parser, and what goes beyond parsing. Fills in what most commands have in common. */
export function defineCommand<Args extends unknown[], Flags extends OptionValues>(
  of: Command<Args, Flags>,
  details: Given<Args, Flags>,
): CliCommand<Args, Flags> {
  return {
    name: of.name(),
    parser: of as unknown as CommandUnknownOpts,
    exits: [0, 1, 2],
    environment: [],
    synopsis: null,
    json: true,
    onInterrupt: null,
    longLived: false,
    terms: null,
    ...details,
  }
}

/** What a command says that stops taking work and ends by itself. */
export const FINISHING_MESSAGE = 'finishing what is under way; again to stop at once'
export const CLOSING_MESSAGE = 'closing; again to stop at once'

/** The arguments of a command that works on sources. */
export const SOURCES_ARGUMENT = ['[SOURCE...]', 'sources of the configuration; default: all'] as const

/** How an argument is written in help: `SOURCE`, `[SOURCE]` or `[SOURCE…]`. */
export function formatArguments({ parser: { registeredArguments } }: CliCommand): string[] {
  return registeredArguments.map((one) => {
    const name = one.name() + (one.variadic ? '…' : '')
    return one.required ? name : `[${name}]`
  })
}

/** `fillrate run [SOURCE…] [options]`. */
export const formatUsage = (command: CliCommand): string =>
  [
    'fillrate',
    command.name,
    ...(command.synopsis ?? formatArguments(command).join(' ')).split(' '),
    '[options]',
  ]
    .filter((word) => word !== '')
    .join(' ')

export const PROGRAM_USAGE = 'fillrate COMMAND [options]'

/** The command line can't be understood. Nothing has been done. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  /** How it is written: `fillrate run [SOURCE…] [options]`. */
  readonly usage: string
  /** Where to read on: `fillrate run --help`. */
  readonly help: string
  readonly suggestion: string | null

  constructor(message: string, more: { usage: string; help: string; suggestion?: string | null }) {
    super(message)
    this.usage = more.usage
    this.help = more.help
    this.suggestion = more.suggestion ?? null
  }
}

/** A usage error of a command; null for the program. */
export const createUsageError = (
  command: CliCommand | null,
  message: string,
  suggestion: string | null = null,
): UsageError =>
  new UsageError(message, {
    usage: command === null ? PROGRAM_USAGE : formatUsage(command),
    help: command === null ? 'fillrate help' : `fillrate ${command.name} --help`,
    suggestion,
  })

/** How a command ends, for the shell and for cron. */
export const Exit = {
  done: 0,
  failed: 1,
  usage: 2,
  open: 3,
  budget: 4,
  interrupted: 130,
} as const
export type ExitCode = (typeof Exit)[keyof typeof Exit]

/** What help says of each. */
export const EXIT_MEANINGS: Readonly<Record<ExitCode, string>> = {
  0: 'done',
  1: 'failed',
  2: 'wrong usage, configuration or environment',
  3: 'done, but some rows failed or still wait',
  4: 'the budget was reached',
  130: 'interrupted, with its state saved',
}

/** Everything of the process that a command may use: nothing but `main.ts` touches `process`. */
export interface Context {
  /** Where answers come from. Without it there is nobody to ask. */
  readonly stdin?: Readable & { readonly isTTY?: boolean }
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Aborted when the user or the system wants the command to end. */
  readonly signal: AbortSignal
  /** Calls back whenever the system says that settings have changed (SIGHUP). Without a listener that ends the process. */
  readonly onReload?: (listener: () => void) => void
  readonly now: () => number
}

/** What help says of each variable of the environment; a test holds the names against what is read. */
export const ENVIRONMENT_HELP = {
  DATABASE_URL: 'the CRM database, postgres://user:password@host/name',
  FILLRATE_BASE_URL: 'the address of the enrichment service',
  FILLRATE_API_KEY: 'its key, or several with commas, newest first',
  FILLRATE_AUTH: 'bearer (default), x-api-key, basic or query',
  FILLRATE_WEBHOOK_SECRET: 'what it signs deliveries with, or several',
  FILLRATE_PUBLIC_URL: 'where it reaches the receiver; without it, no bulk',
  FILLRATE_PORT: 'the port of the receiver; default: any free one',
  FILLRATE_HOST: 'where the receiver listens; default: 127.0.0.1',
  FILLRATE_DASHBOARD_TOKEN: 'opens dashboard and metrics; a must off loopback',
  FILLRATE_NOTIFY_URL: 'whom to tell of runs, where `notify` names no url',
  FILLRATE_NOTIFY_SECRET: 'what notifications are signed with',
  LOG_LEVEL: 'trace, debug, info, warn, error, fatal or silent',
  HTTPS_PROXY: 'a proxy that leads to the service',
  HTTP_PROXY: 'the same for addresses without TLS',
  NO_PROXY: 'hosts that need no proxy',
  NO_COLOR: 'anything: no colours',
} as const satisfies Readonly<Record<string, string>>

export type EnvironmentVariable = keyof typeof ENVIRONMENT_HELP

/** What a command reads that needs the database, that calls the service, or that receives deliveries. */
export const DATABASE_VARIABLES = ['DATABASE_URL'] as const
export const SERVICE_VARIABLES = [
  'DATABASE_URL',
  'FILLRATE_BASE_URL',
  'FILLRATE_API_KEY',
  'FILLRATE_AUTH',
] as const
export const RECEIVER_VARIABLES = [
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_PUBLIC_URL',
  'FILLRATE_PORT',
  'FILLRATE_HOST',
] as const
