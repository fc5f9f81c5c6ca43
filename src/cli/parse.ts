import { type Argument, CommanderError, Option } from '@commander-js/extra-typings'
import { didYouMean, quoteText } from '../util/text.ts'
import { type CliCommand, type Invocation, UsageError, formatArguments, program } from './command.ts'
import { commands, findCommand } from './commands.ts'
import { ExpectedError, parseChoice, valuePlaceholder } from './options.ts'

/** An option in the place of a value, as in `--limit --dry-run`. A negative number is an invalid value, reported by its parser. */
const LOOKS_LIKE_OPTION = /^--?[a-z][\w-]*$/i

/** Lets the parser of a value say what it belongs to and what was found. Which command that is of is found later. */
function nameInErrors(target: Option | Argument): void {
  const option = target instanceof Option ? target : null
  const { argChoices } = target
  const parse = argChoices === undefined ? target.parseArg : (text: string) => parseChoice(text, argChoices)
  if (parse === undefined) return
  target.parseArg = <Value>(text: string, before: Value): Value => {
    if (option !== null && LOOKS_LIKE_OPTION.test(text)) throw createMissingValueError(option)
    try {
      return parse(text, before) as Value
    } catch (error) {
      if (!(error instanceof ExpectedError)) throw error
      const place = option === null ? '' : `${option.long}: `
      const message = `${place}expected ${error.message}, found ${quoteText(text)}`
      throw new UsageError(null, message, error.suggestion)
    }
  }
}

const createMissingValueError = (option: Option): UsageError =>
  new UsageError(null, `${option.long} needs a value: ${option.long} ${valuePlaceholder(option)}`)

for (const option of program.options) nameInErrors(option)
for (const { parser } of commands) {
  for (const value of [...parser.options, ...parser.registeredArguments]) nameInErrors(value)
  program.addCommand(parser)
}

/**
 * Parses a command line, without the name of the program. Pure.
 * @throws UsageError with a suggestion if there is one
 */
export function parseCommandLine(words: readonly string[]): Invocation {
  let parsed: CliCommand | null = null
  for (const command of commands) command.parser.action(() => void (parsed = command))
  program.action(() => {})
  let failure: unknown = null
  try {
    // commander knows one short form of an option.
    const known = words.map((word) => (word === '-V' ? '-v' : word))
    program.parse(known, { from: 'user' })
  } catch (error) {
    failure = error
  }
  const { help, version } = program.opts()
  const [first, second] = program.args.filter((word) => !word.startsWith('-'))
  if (version) return invoke('version', [])
  // Help is most useful if something is wrong, so it takes precedence over errors.
  if (help || (failure === null && parsed === null))
    return invoke('help', parseTopic(first === 'help' ? second : first))
  if (failure !== null) throw toUsageError(failure, findCommand(first), words)
  const command = parsed as unknown as CliCommand
  const { processedArgs: args } = command.parser
  return command.name === 'help'
    ? invoke('help', parseTopic(second))
    : { command, args, flags: command.parser.optsWithGlobals() as Invocation['flags'] }
}

function invoke(name: string, args: readonly string[]): Invocation {
  const command = findCommand(name)
  if (command === null) throw new Error(`there is no command ${name}`)
  return { command, args: [...args], flags: program.opts() }
}

/** @throws UsageError if there is no such command */
function parseTopic(word: string | undefined): string[] {
  if (word === undefined) return []
  if (findCommand(word) === null) throw createUnknownCommandError(word)
  return [word]
}

function createUnknownCommandError(word: string): Error {
  const names = commands.map((one) => one.name)
  return new UsageError(null, `there is no command ${quoteText(word)}`, didYouMean(word, names))
}

/** Converts an error of commander or of a value parser; returns any other error unchanged. */
function toUsageError(error: unknown, command: CliCommand | null, words: readonly string[]): unknown {
  const ofCommand = ({ message, suggestion }: UsageError): UsageError =>
    new UsageError(command ?? findTypedCommand(words), message, suggestion)
  if (error instanceof UsageError) return ofCommand(error)
  if (!(error instanceof CommanderError)) return error
  const subject = /'(.*)'/s.exec(error.message)?.[1] ?? ''
  switch (error.code) {
    case 'commander.unknownOption':
      return createUnknownOptionError(command, subject)
    case 'commander.optionMissingArgument': {
      const option = allOptions(command).find(({ flags }) => flags === subject)
      return option === undefined ? error : ofCommand(createMissingValueError(option))
    }
    case 'commander.missingArgument': {
      if (command === null) return error
      const missing = formatArguments(command).slice(command.parser.args.length).join(' and ')
      return new UsageError(command, `fillrate ${command.name} needs ${missing}`)
    }
    case 'commander.excessArguments':
      return command === null
        ? createUnknownCommandError(program.args[0] ?? '')
        : createExcessArgumentsError(command)
    default:
      return new UsageError(command, error.message)
  }
}

/** The command on a command line that was not parsed to its end. */
const findTypedCommand = (words: readonly string[]): CliCommand | null =>
  words.map(findCommand).find((one) => one !== null) ?? null

const allOptions = (command: CliCommand | null) => [...program.options, ...(command?.parser.options ?? [])]

const isNamed = ({ long, short }: Option, name: string): boolean => long === name || short === name

function createUnknownOptionError(command: CliCommand | null, typed: string): Error {
  const [name = '', value] = typed.split(/=(.*)/s)
  const isOfThis = allOptions(command).some((one) => isNamed(one, name) && valuePlaceholder(one) === null)
  if (isOfThis) return new UsageError(command, `${name} takes no value, found ${quoteText(value ?? '')}`)
  const others = commands.filter((one) => one.parser.options.some((option) => isNamed(option, name)))
  if (others.length > 0) {
    const these = others.map((one) => `fillrate ${one.name}`).join(', ')
    const here = command === null ? 'fillrate' : `fillrate ${command.name}`
    return new UsageError(command, `${name} is no option of ${here}, but of ${these}`)
  }
  const known = allOptions(command).flatMap(({ long }) => long ?? [])
  return new UsageError(command, `there is no option ${name}`, didYouMean(name, known))
}

function createExcessArgumentsError(command: CliCommand): Error {
  const { registeredArguments, args } = command.parser
  const most = registeredArguments.length
  const extra = args.slice(most).map(quoteText).join(' ')
  const takes = most === 0 ? 'no words after it' : most === 1 ? 'one word after it' : `${most} words after it`
  return new UsageError(command, `fillrate ${command.name} takes ${takes}, found ${extra}`)
}
