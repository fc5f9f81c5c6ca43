import { parseArgs, type ParseArgsConfig } from 'node:util'
import { quote } from '../config/show.ts'
import { didYouMean } from '../config/suggest.ts'
import { typed, USAGE, usageOf, type Command } from './command.ts'
import { declarations, GLOBAL_FLAGS, isVerb, VERBS, type Verb } from './declarations.ts'
import type { Declaration, Flags } from './declare.ts'
import { Unreadable, type Flag } from './flag.ts'
import { UsageError } from './usage-error.ts'

type Token = ReturnType<typeof tokensOf>[number]
type OptionToken = Extract<Token, { kind: 'option' }>

/**
 * Reads the words of a command line, without the program's own name. Pure.
 * @throws UsageError that says what was wrong and what was meant
 */
export function parseCommand(words: readonly string[]): Command {
  const tokens = tokensOf(words)
  const [first, ...rest] = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  const options = tokens.filter((token) => token.kind === 'option')
  const given = (flag: keyof typeof GLOBAL_FLAGS): boolean =>
    options.some((token) => token.name === typed(flag))

  // Help is wanted most where something is wrong, so it comes before any complaint.
  if (given('help') || first === undefined) {
    if (given('version')) return command('version', [], options.filter(isGlobal))
    const topic = first === 'help' ? rest[0] : first
    if (topic === undefined)
      return command('help', [], first === undefined ? options : options.filter(isGlobal))
    return command('help', [verbOf(topic)], options.filter(isGlobal))
  }
  if (given('version')) return command('version', [], options.filter(isGlobal))
  const verb = verbOf(first)
  if (verb === 'help') return command('help', rest.slice(0, 1).map(verbOf), options)
  return command(verb, rest, options)
}

function command(verb: Verb, words: readonly string[], options: readonly OptionToken[]): Command {
  const { most, least = 0 }: NonNullable<Declaration['words']> = declarations[verb].words ?? NO_WORDS
  if (words.length > most) throw tooMany(verb, words, most)
  if (words.length < least)
    throw usageError(verb, `fillrate ${verb} needs ${placeholdersOf(verb, words.length)}`)
  const flags: Flags = { ...GLOBAL_FLAGS, ...declarations[verb].flags }
  const texts = new Map<string, string>()
  for (const token of options) {
    const name = Object.keys(flags).find((one) => typed(one) === token.name)
    const flag = name === undefined ? undefined : flags[name]
    if (name === undefined || flag === undefined) throw unknownFlag(verb, token)
    const value = valueOf(verb, token, flag)
    const before = texts.get(name)
    texts.set(name, flag.repeats && before !== undefined ? `${before},${value}` : value)
  }
  const values = Object.entries(flags).map(([name, flag]) => {
    const given = texts.get(name)
    return [name, given === undefined ? flag.absent : read(verb, name, flag, given)]
  })
  // The values come from the same table as the type, which the compiler can't see through Object.entries.
  return { verb, words, flags: Object.fromEntries(values) } as Command
}

const NO_WORDS = { placeholder: '', help: '', most: 0 }

/** The words that are missing. */
const placeholdersOf = (verb: Verb, given: number): string =>
  declarations[verb].words?.placeholder.split(' ').slice(given).join(' and ') ?? ''

function read(verb: Verb, name: string, flag: Flag<unknown>, given: string): unknown {
  try {
    return flag.read(given)
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error
    throw usageError(verb, `--${typed(name)}: ${error.message}, found ${quote(given)}`)
  }
}

/** The text after a flag; '' for a switch. */
function valueOf(verb: Verb, token: OptionToken, flag: Flag<unknown>): string {
  if (flag.placeholder === null) {
    if (token.value === undefined) return ''
    throw usageError(verb, `${token.rawName} takes no value, found ${quote(token.value)}`)
  }
  const value = token.value
  // A flag in the place of a value: `--limit --json`. A negative number is a wrong value, and said so by its reader.
  const isFlag = value !== undefined && token.inlineValue === false && /^-[^\d]/.test(value)
  if (value === undefined || isFlag)
    throw usageError(verb, `${token.rawName} needs a value: ${token.rawName} ${flag.placeholder}`)
  return value
}

function tokensOf(words: readonly string[]) {
  // All flags of all commands: which command it is, is not known before they are told from their values.
  const all = Object.assign({}, GLOBAL_FLAGS, ...VERBS.map((verb) => declarations[verb].flags)) as Flags
  const options: NonNullable<ParseArgsConfig['options']> = {}
  for (const [name, { placeholder, short }] of Object.entries(all)) {
    options[typed(name)] = {
      type: placeholder === null ? 'boolean' : 'string',
      ...(short !== null && { short }),
    }
  }
  return parseArgs({ args: [...words], options, strict: false, allowPositionals: true, tokens: true }).tokens
}

const isGlobal = (token: OptionToken): boolean =>
  Object.keys(GLOBAL_FLAGS).some((name) => typed(name) === token.name)

function verbOf(word: string): Verb {
  if (isVerb(word)) return word
  throw new UsageError(`there is no command ${quote(word)}`, {
    usage: USAGE,
    help: 'fillrate help',
    suggestion: didYouMean(word, VERBS),
  })
}

function unknownFlag(verb: Verb, token: OptionToken): UsageError {
  const others = VERBS.filter((one) =>
    Object.keys(declarations[one].flags).some((name) => typed(name) === token.name),
  )
  if (others.length > 0) {
    const these = others.map((one) => `fillrate ${one}`).join(', ')
    return usageError(verb, `${token.rawName} is no option of fillrate ${verb}, but of ${these}`)
  }
  const known = Object.keys({ ...GLOBAL_FLAGS, ...declarations[verb].flags }).map(
    (name) => `--${typed(name)}`,
  )
  return usageError(verb, `there is no option ${token.rawName}`, didYouMean(token.rawName, known))
}

function tooMany(verb: Verb, words: readonly string[], most: number): UsageError {
  const extra = words.slice(most).map(quote).join(' ')
  const takes = most === 0 ? 'no words after it' : most === 1 ? 'one word after it' : `${most} words after it`
  return usageError(verb, `fillrate ${verb} takes ${takes}, found ${extra}`)
}

const usageError = (verb: Verb, message: string, suggestion: string | null = null): UsageError =>
  new UsageError(message, {
    usage: verb === 'help' ? USAGE : usageOf(verb),
    help: verb === 'help' ? 'fillrate help' : `fillrate ${verb} --help`,
    suggestion,
  })
