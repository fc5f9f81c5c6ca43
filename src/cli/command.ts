import { Command, type CommandUnknownOpts, type OptionValues } from '@commander-js/extra-typings'
import { ENVIRONMENT_VARIABLES } from '../config/environment.ts'
import { readVersion } from '../util/version.ts'
import { parseText } from './options.ts'
import { type Output, writeJson } from './terminal.ts'

/** Terms and their meanings, which help shows below what commander knows. */
const formatTerms = (heading: string, terms: Readonly<Record<string, string>>): string => {
  const width = Math.max(...Object.keys(terms).map((term) => term.length))
  const lines = Object.entries(terms).map(([term, meaning]) =>
    `  ${term.padEnd(width)}  ${meaning}`.trimEnd(),
  )
  return `\n${heading}:\n${lines.join('\n')}`
}

/** A parser that throws where commander would exit. */
export const createParser = <const Name extends string>(name: Name) =>
  new Command(name).exitOverride().configureHelp({
    showGlobalOptions: true,
    subcommandTerm: (command) => command.name(),
    // Descriptions say themselves what is chosen from, and the default.
    optionDescription: ({ description }) => description,
    argumentDescription: ({ description }) => description,
  })

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
  /** Whether it depends on variables, and so on a readable `.env`. */
  readonly readsEnvironment: boolean
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
    readsEnvironment: true,
    json: true,
    onInterrupt: null,
    longLived: false,
    waitsForDatabase: false,
    terms: null,
    ...details,
  } satisfies CliCommand<Args, Flags>
  const { terms, examples, exits } = command
  const meanings = Object.fromEntries(exits.map((code) => [code, EXIT_MEANINGS[code]]))
  commandParser.helpGroup(`${COMMAND_GROUPS[command.group]}:`)
  if (terms !== null) commandParser.addHelpText('after', formatTerms(terms.title, terms.list))
  commandParser
    .addHelpText('after', formatTerms('Examples', Object.fromEntries(examples)))
    .addHelpText('after', formatTerms('Exit codes', meanings))
  return command
}

/** Messages at the first signal. */
export const FINISHING_MESSAGE = 'finishing current work; repeat to stop immediately'
export const CLOSING_MESSAGE = 'closing; repeat to stop immediately'

/** The argument of a command that works on sources. */
const SOURCES = "sources of the configuration, also by pattern: 'acme_*'"
export const SOURCES_ARGUMENT = ['[SOURCE...]', `${SOURCES}; default: all`] as const
export const REQUIRED_SOURCES_ARGUMENT = ['<SOURCE...>', SOURCES] as const

/** `fillrate run [options] [SOURCE...]`. */
const formatUsage = ({ name, parser }: CliCommand): string => `fillrate ${name} ${parser.usage()}`

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

/** @throws UsageError where a command would change data, and --yes does not permit it */
export function requireYes({
  command,
  flags,
}: Invocation<unknown[], { readonly yes: boolean; readonly dryRun: boolean }>): void {
  if (flags.yes || flags.dryRun) return
  throw new UsageError(
    command,
    'expected --yes, because it changes data',
    'Look at what it would do with --dry-run, then add --yes.',
  )
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

const SEVERAL_SERVICES = {
  'FILLRATE_NAME_…': 'those of NAME where there are several services, such as FILLRATE_PDL_API_KEY',
}
program
  .addHelpText('after', formatTerms('Environment', { ...ENVIRONMENT_VARIABLES, ...SEVERAL_SERVICES }))
  .addHelpText('after', formatTerms('Exit codes', EXIT_MEANINGS))

/** What a command uses of the process: only `main.ts` and `process.ts` access `process`. */
export interface Context {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  readonly now: () => number
}
