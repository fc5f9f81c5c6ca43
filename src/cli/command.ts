import {
  Command,
  Help,
  Option,
  type CommandUnknownOpts,
  type HelpConfiguration,
  type OptionValues,
} from '@commander-js/extra-typings'
import { ENVIRONMENT_VARIABLES, type EnvironmentVariable, LOG_LEVELS } from '../config/environment.ts'
import { readVersion } from '../util/version.ts'
import { formatChoices, DRY_RUN_SAMPLE_ROWS, parseText } from './options.ts'
import type { Readable } from 'node:stream'
import { type Output, writeJson } from './terminal.ts'

/** A list of terms that help shows below what commander knows, with a heading. */
type HelpList = readonly [heading: string, terms: Readonly<Record<string, string>>]

/** commander's help, with lists below it. Descriptions say themselves what is chosen from, and the default. */
const toHelp = (lists: readonly HelpList[]): HelpConfiguration => ({
  showGlobalOptions: true,
  subcommandTerm: (command) => command.name(),
  optionDescription: ({ description }) => description,
  argumentDescription: ({ description }) => description,
  formatHelp: (command, helper) => {
    const more = lists.flatMap(([heading, terms]) => {
      const width = Math.max(...Object.keys(terms).map((term) => term.length))
      const items = Object.entries(terms).map(([term, text]) => helper.formatItem(term, width, text, helper))
      return items.length === 0 ? [] : [`${heading}:`, ...items, '']
    })
    return [Help.prototype.formatHelp.call(helper, command, helper), ...more].join('\n')
  },
})

/** A parser that throws where commander would exit. */
export const createParser = <const Name extends string>(name: Name) =>
  new Command(name).exitOverride().configureHelp(toHelp([]))

/** The program, with the options of every command. */
export const program = createParser('fillrate')
  .description(
    'Enriches CRM records in Postgres from an HTTP enrichment API, at full rate limit, without overwriting manually entered data.',
  )
  .option(
    '--config <FILE>',
    'configuration file; default: fillrate.config.ts, .js, .mjs or .json in this folder',
    parseText,
    null,
  )
  .option('--json', 'print one JSON object to standard output', false)
  .addOption(
    new Option('--log-level <LEVEL>', `log level (stderr): ${formatChoices(LOG_LEVELS)}`)
      .choices(LOG_LEVELS)
      .default(null),
  )
  .addOption(
    new Option('--log-format <json|pretty>', 'log format (stderr); default: pretty on a terminal, else json')
      .choices(['json', 'pretty'])
      .default(null),
  )
  .option('--no-color', 'disable colours')
  .version(readVersion(), '-v, --version', 'print the version')

type GlobalFlags = ReturnType<typeof program.opts>

/** A parsed command line: the command, its arguments and its options. */
export interface Invocation<Args extends unknown[] = unknown[], Flags extends OptionValues = OptionValues> {
  readonly command: CliCommand
  readonly args: Args
  readonly flags: Flags & GlobalFlags
}

/** What a handler receives: the command line, and what it uses of the process. */
export interface CliCall<Args extends unknown[] = unknown[], Flags extends OptionValues = OptionValues>
  extends Invocation<Args, Flags>, Context {
  /** Registers what to do when the command is over, the last registered first. */
  readonly onEnd: (close: () => Promise<unknown>) => void
  /** Runs another command, with what it uses of the process. */
  readonly runCommand: (words: readonly string[], context: Context) => Promise<ExitCode>
}

/** The call that a parser produces, for functions beside a handler. */
export type CliCallOf<Parser extends { processedArgs: unknown[]; opts: () => OptionValues }> = CliCall<
  Parser['processedArgs'],
  ReturnType<Parser['opts']>
>

/** What a command prints at its end: an object with `--json`, else lines. */
export interface Answer {
  readonly json: object
  readonly text: () => readonly string[]
  /** Default: 0. */
  readonly exit?: ExitCode
}

export function printAnswer(
  { flags, stdout }: Pick<CliCall, 'flags' | 'stdout'>,
  { json, text }: Answer,
): void {
  if (flags.json) writeJson(stdout, json)
  else stdout.lines(text())
}

/** The groups of help, in order. */
export const COMMAND_GROUPS = {
  setup: 'Getting started',
  work: 'Enrichment',
  inspect: 'Status and history',
  test: 'Testing',
} as const

interface CommandDetails<Args extends unknown[], Flags extends OptionValues> {
  readonly group: keyof typeof COMMAND_GROUPS
  readonly examples: readonly (readonly [command: string, what: string])[]
  readonly exits: readonly ExitCode[]
  readonly environment: readonly EnvironmentVariable[]
  /** Whether the command supports `--json`. */
  readonly json: boolean
  /** The message at the first signal, if the command then finishes by itself. Null: it stops immediately. */
  readonly onInterrupt: string | null
  /** Whether it runs until stopped: its log then starts at level info on a terminal too. */
  readonly longLived: boolean
  /** Whether it waits for a Postgres that is restarting: no one may be watching. */
  readonly waitsForDatabase: boolean
  /** A list of terms that help shows. */
  readonly terms: { readonly title: string; readonly list: Readonly<Record<string, string>> } | null
  handler(call: CliCall<Args, Flags>): Promise<ExitCode | Answer>
}

/** A command: its parser, its help and its handler. */
export interface CliCommand<
  Args extends unknown[] = unknown[],
  Flags extends OptionValues = OptionValues,
> extends CommandDetails<Args, Flags> {
  readonly name: string
  readonly parser: CommandUnknownOpts
}

type CommandSpec<Args extends unknown[], Flags extends OptionValues> = Pick<
  CommandDetails<Args, Flags>,
  'group' | 'examples' | 'handler'
> &
  Partial<CommandDetails<Args, Flags>>

/** Declares a command: its parser, and everything beyond parsing, with defaults for most of it. */
export function defineCommand<Args extends unknown[], Flags extends OptionValues>(
  commandParser: Command<Args, Flags>,
  details: CommandSpec<Args, Flags>,
): CliCommand<Args, Flags> {
  const command = {
    name: commandParser.name(),
    parser: commandParser as unknown as CommandUnknownOpts,
    exits: [0, 1, 2],
    environment: DATABASE_VARIABLES,
    json: true,
    onInterrupt: null,
    longLived: false,
    waitsForDatabase: false,
    terms: null,
    ...details,
  } satisfies CliCommand<Args, Flags>
  const { terms, examples, environment, exits } = command
  commandParser
    .helpGroup(`${COMMAND_GROUPS[command.group]}:`)
    .configureHelp(
      toHelp([
        ...(terms === null ? [] : [[terms.title, terms.list] as const]),
        ['Examples', Object.fromEntries(examples)],
        ['Environment', pick(ENVIRONMENT_VARIABLES, environment)],
        ['Exit codes', pick(EXIT_MEANINGS, exits)],
      ]),
    )
  return command
}

const pick = <Name extends PropertyKey>(
  all: Readonly<Record<Name, string>>,
  names: readonly Name[],
): Readonly<Record<string, string>> => Object.fromEntries(names.map((name) => [name, all[name]]))

/** Messages at the first signal. */
export const FINISHING_MESSAGE = 'finishing current work; repeat to stop immediately'
export const CLOSING_MESSAGE = 'closing; repeat to stop immediately'

/** The argument of a command that works on sources. */
const SOURCES = "sources of the configuration, also by pattern: 'acme_*'"
export const SOURCES_ARGUMENT = ['[SOURCE...]', `${SOURCES}; default: all`] as const
export const REQUIRED_SOURCES_ARGUMENT = ['<SOURCE...>', SOURCES] as const

/** The arguments as help shows them: `SOURCE`, `[SOURCE]` or `[SOURCE…]`. */
export function formatArguments({ parser: { registeredArguments } }: CliCommand): string[] {
  return registeredArguments.map((one) => {
    const name = one.name() + (one.variadic ? '…' : '')
    return one.required ? name : `[${name}]`
  })
}

/** `fillrate run [options] [SOURCE...]`. */
export const formatUsage = ({ name, parser }: CliCommand): string => `fillrate ${name} ${parser.usage()}`

/** The command line is invalid. Nothing was done. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  /** The usage line, `fillrate run [options] [SOURCE...]`. */
  readonly usage: string
  /** The command that shows more help, `fillrate run --help`. */
  readonly help: string
  readonly suggestion: string | null

  /** @param command null: the program */
  constructor(command: CliCommand | null, message: string, suggestion: string | null = null) {
    super(message)
    this.usage = command === null ? 'fillrate COMMAND [options]' : formatUsage(command)
    this.help = command === null ? 'fillrate help' : `fillrate ${command.name} --help`
    this.suggestion = suggestion
  }
}

/**
 * The rows that a dry run shows before and after.
 * @throws UsageError if a sample is requested without a dry run
 */
export function chooseSampleRows({
  command,
  flags: { dryRun, sample },
}: {
  readonly command: CliCommand
  readonly flags: { readonly dryRun: boolean; readonly sample: number | null }
}): number {
  if (sample !== null && !dryRun) throw new UsageError(command, '--sample requires --dry-run')
  return sample ?? DRY_RUN_SAMPLE_ROWS
}

/** Exit codes, for shells and cron. */
export const Exit = {
  done: 0,
  failed: 1,
  usage: 2,
  open: 3,
  budget: 4,
  interrupted: 130,
} as const
export type ExitCode = (typeof Exit)[keyof typeof Exit]

/** The exit codes as help describes them. */
export const EXIT_MEANINGS: Readonly<Record<ExitCode, string>> = {
  0: 'done',
  1: 'failed',
  2: 'invalid usage, configuration or environment',
  3: 'done, but some rows failed or are still waiting',
  4: 'budget reached, or no credits left at the service',
  130: 'interrupted, state saved',
}

program.configureHelp(
  toHelp([
    [
      'Environment',
      {
        ...ENVIRONMENT_VARIABLES,
        'FILLRATE_NAME_…': 'those of NAME where there are several services, such as FILLRATE_PDL_API_KEY',
      },
    ],
    ['Exit codes', EXIT_MEANINGS],
  ]),
)

/** What a command uses of the process: only `main.ts` and `process.ts` access `process`. */
export interface Context {
  /** For interactive prompts. */
  readonly stdin?: Readable & { readonly isTTY?: boolean }
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  /** Registers a listener for SIGHUP. Without a listener, SIGHUP ends the process. */
  readonly onReload?: (listener: () => void) => void
  readonly now: () => number
}

/** The variables of commands that send notifications. */
export const NOTIFICATION_VARIABLES = [
  'FILLRATE_DASHBOARD_URL',
  'FILLRATE_ENVIRONMENT',
  'FILLRATE_NOTIFY_URL',
  'FILLRATE_NOTIFY_SECRET',
] as const

/** The variables of commands that use the database, call the service, or receive webhooks. */
const DATABASE_VARIABLES = ['DATABASE_URL', 'FILLRATE_MAX_CONNECTIONS'] as const
export const SERVICE_VARIABLES = [
  ...DATABASE_VARIABLES,
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
/** The variables of commands that serve until they are stopped. */
export const SERVER_VARIABLES = [
  ...SERVICE_VARIABLES,
  ...RECEIVER_VARIABLES,
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_DASHBOARD_READ_TOKEN',
  ...NOTIFICATION_VARIABLES,
  'LOG_LEVEL',
] as const
