import { Command, type CommandUnknownOpts, type OptionValues } from '@commander-js/extra-typings'
import { LOG_LEVELS } from '../config/environment.ts'
import type { Context } from './context.ts'
import type { Variable } from './environment-help.ts'
import type { ExitCode } from './exit-codes.ts'
import { boolean, listed, oneOf, text } from './options.ts'

/** A parser that throws where commander by itself would print and exit. */
export const parser = <const Name extends string>(name: Name) =>
  new Command(name)
    .helpOption(false)
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })

/** The program with the options of every command. */
export const program = parser('fillrate')
  .helpCommand(false)
  .addOption(
    text('--config <FILE>', 'the configuration; default: fillrate.config.ts, .js, .mjs or .json here'),
  )
  .addOption(boolean('--json', 'one JSON object on standard output, for programs'))
  .addOption(
    oneOf(
      '--log-level <LEVEL>',
      `how much is told on standard error: ${listed(LOG_LEVELS)}`,
      LOG_LEVELS,
      null,
    ),
  )
  .option('--no-color', 'no colours')
  .addOption(boolean('-h, --help', 'this help'))
  .addOption(boolean('--version', 'the version'))

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
  readonly environment: readonly Variable[]
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
export const FINISHING = 'finishing what is under way; again to stop at once'
export const CLOSING = 'closing; again to stop at once'

/** The arguments of a command that works on sources. */
export const SOURCES = ['[SOURCE...]', 'sources of the configuration; default: all'] as const

/** How an argument is written in help: `SOURCE`, `[SOURCE]` or `[SOURCE…]`. */
export function argumentTerms({ parser: { registeredArguments } }: CliCommand): string[] {
  return registeredArguments.map((one) => {
    const name = one.name() + (one.variadic ? '…' : '')
    return one.required ? name : `[${name}]`
  })
}

/** `fillrate run [SOURCE…] [options]`. */
export const usageOf = (command: CliCommand): string =>
  [
    'fillrate',
    command.name,
    ...(command.synopsis ?? argumentTerms(command).join(' ')).split(' '),
    '[options]',
  ]
    .filter((word) => word !== '')
    .join(' ')

export const USAGE = 'fillrate COMMAND [options]'

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
export const usageError = (
  command: CliCommand | null,
  message: string,
  suggestion: string | null = null,
): UsageError =>
  new UsageError(message, {
    usage: command === null ? USAGE : usageOf(command),
    help: command === null ? 'fillrate help' : `fillrate ${command.name} --help`,
    suggestion,
  })
