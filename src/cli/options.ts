import { Argument, Option } from '@commander-js/extra-typings'
import { parseDuration } from '../util/format.ts'
import { quoteText } from '../util/text.ts'

/** A value on the command line is invalid. The message says what was expected and what was found. */
export class InvalidValueError extends Error {
  override readonly name = 'InvalidValueError'
  readonly suggestion: string | null

  constructor(message: string, suggestion: string | null = null) {
    super(message)
    this.suggestion = suggestion
  }
}

/** Thrown by a parser. Its message completes the sentence "expected …". */
class ExpectedError extends Error {}

/** An option in the place of a value, as in `--limit --dry-run`. A negative number is an invalid value, reported by its parser. */
const LOOKS_LIKE_OPTION = /^--?[a-z][\w-]*$/i

/** @throws InvalidValueError */
function parseValue<Value>(option: Option, parse: (text: string) => Value, text: string): Value {
  if (LOOKS_LIKE_OPTION.test(text)) throw createMissingValueError(option)
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof ExpectedError)) throw error
    throw new InvalidValueError(`${option.long}: expected ${error.message}, found ${quoteText(text)}`)
  }
}

export const createMissingValueError = (option: Option): InvalidValueError =>
  new InvalidValueError(`${option.long} needs a value: ${option.long} ${valuePlaceholder(option)}`)

/** The placeholder of the value in help, such as `N`; null if the option takes no value. */
export const valuePlaceholder = ({ flags }: Option): string | null => /<(.*)>/.exec(flags)?.[1] ?? null

function valueOption<const Flags extends string, Value, const Default>(
  flags: Flags,
  help: string,
  fallback: Default,
  parse: (text: string) => Value,
) {
  const option = new Option(flags, help)
  return option.argParser<Value>((text) => parseValue(option as Option, parse, text)).default(fallback)
}

/** An option that can be repeated; `join` combines the values. */
export function repeatableOption<const Flags extends string, Value, Default>(
  flags: Flags,
  help: string,
  fallback: Default,
  parse: (text: string) => Value,
  join: (before: Value, next: Value) => Value,
) {
  const option = new Option(flags, help)
  return option
    .argParser<Value | Default>((text, before) => {
      const next = parseValue(option as Option, parse, text)
      return before === fallback ? next : join(before as Value, next)
    })
    .default(fallback as Default)
}

export const booleanOption = <const Flags extends string>(flags: Flags, help: string) =>
  new Option(flags, help).default(false)

export const textOption = <const Flags extends string>(flags: Flags, help: string) =>
  valueOption(flags, help, null, parseText)

export function parseText(text: string): string {
  if (text.trim() === '') throw new ExpectedError('a text that is not empty')
  return text
}

export function choiceOption<const Flags extends string, const Word extends string, const Default>(
  flags: Flags,
  help: string,
  words: readonly Word[],
  fallback: Default,
) {
  const option = valueOption(flags, help, fallback, (text) => parseChoice(text, words))
  // For completion. Commander's own `choices` would replace the parser, which accepts capitals too.
  option.argChoices = [...words]
  return option
}

/** An argument with a fixed set of values. */
export function choiceArgument<const Name extends string, const Word extends string>(
  name: Name,
  help: string,
  words: readonly Word[],
) {
  const argument = new Argument(name, help).argParser((text: string) => {
    try {
      return parseChoice(text, words)
    } catch (error) {
      if (!(error instanceof ExpectedError)) throw error
      throw new InvalidValueError(`expected ${error.message}, found ${quoteText(text)}`)
    }
  })
  argument.argChoices = [...words]
  return argument
}

function parseChoice<Word extends string>(text: string, words: readonly Word[]): Word {
  const word = words.find((one) => one === text.trim().toLowerCase())
  if (word === undefined) throw new ExpectedError(formatChoices(words))
  return word
}

/** A whole number. Thousands separators are accepted: `10,000`, `10_000`. */
export function wholeNumberOption<const Flags extends string, Default extends number | null>(
  flags: Flags,
  help: string,
  min: number,
  fallback: Default,
) {
  return valueOption<Flags, number, Default>(flags, help, fallback, (text) =>
    parseWhole(text, min, 'a whole number'),
  )
}

export function portOption<const Flags extends string, Default extends number | null>(
  flags: Flags,
  help: string,
  fallback: Default,
) {
  return valueOption<Flags, number, Default>(flags, help, fallback, (text) => {
    const read = parseWhole(text, 0, 'a port, 0 to 65535')
    if (read > 65_535) throw new ExpectedError('a port, 0 to 65535')
    return read
  })
}

export const lookupBudgetOption = <const Flags extends string>(flags: Flags, help: string) =>
  valueOption(flags, help, null, (text): number | 'unlimited' =>
    text.trim().toLowerCase() === 'unlimited'
      ? 'unlimited'
      : parseWhole(text, 0, "a whole number or 'unlimited'"),
  )

/** A duration with its unit, in milliseconds. `0` needs no unit. */
export const durationOption = <const Flags extends string>(flags: Flags, help: string, fallback: number) =>
  valueOption<Flags, number, number>(flags, help, fallback, parseMs)

/** A duration in milliseconds, or a range of two, such as `20-200ms`. */
export const durationRangeOption = <const Flags extends string>(flags: Flags, help: string) =>
  valueOption(flags, help, null, (text): number | readonly [number, number] => {
    const [low = '', high, more] = text.split('-').map((side) => side.trim())
    if (high === undefined) return parseMs(low)
    const unit = /[a-z]+$/i.exec(high)?.[0] ?? ''
    const from = parseMs(/[a-z]$/i.test(low) ? low : low + unit)
    const to = parseMs(high)
    if (more !== undefined || from > to)
      throw new ExpectedError("two durations, the shorter first, such as '20-200ms'")
    return [from, to]
  })

/** A list of states, separated by commas. Can be repeated. */
export const statesOption = <const Flags extends string, State extends string, Default>(
  flags: Flags,
  help: string,
  known: readonly State[],
  fallback: Default,
) =>
  repeatableOption(
    flags,
    help,
    fallback,
    (text): readonly State[] =>
      text.split(',').map((word) => {
        const state = known.find((one) => one === word.trim().toLowerCase().replaceAll(/[\s-]/g, '_'))
        if (state === undefined) throw new ExpectedError(formatChoices(known))
        return state
      }),
    (before, next) => [...before, ...next],
  )

/** Adapts the parser of another module, whose error message says what was expected. */
export const adaptParser =
  <Value>(parse: (text: string) => Value) =>
  (text: string): Value => {
    try {
      return parse(text)
    } catch (error) {
      throw new ExpectedError((error as Error).message)
    }
  }

/** The number of a run, an argument. */
export function parseRunNumber(word: string): number {
  const run = /^\d+$/.test(word) ? Number(word) : Number.NaN
  if (Number.isSafeInteger(run)) return run
  throw new InvalidValueError(
    `expected the number of a run, found ${quoteText(word)}`,
    '`fillrate runs` lists them.',
  )
}

function parseWhole(text: string, min: number, what: string): number {
  const plain = text.trim()
  const read = /^\d+$|^\d{1,3}([,_]\d{3})+$/.test(plain) ? Number(plain.replace(/[,_]/g, '')) : Number.NaN
  if (!Number.isSafeInteger(read) || read < min)
    throw new ExpectedError(min > 0 ? `${what} from ${min}` : what)
  return read
}

function parseMs(text: string): number {
  if (text.trim() === '0') return 0
  const read = parseDuration(text)
  if (read === null) throw new ExpectedError("a duration with its unit, such as '500ms', '30s' or '30m'")
  return read
}

/** `a, b or c`. */
export function formatChoices(words: readonly string[]): string {
  const last = words.at(-1) ?? ''
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`
}

/** Rows that a dry run shows by default. */
export const DRY_RUN_SAMPLE_ROWS = 20

/** The sample of a dry run, of `run` and `remap`. */
export const dryRunSampleOption = wholeNumberOption(
  '--sample <N>',
  `rows to show before and after, with --dry-run; default: ${DRY_RUN_SAMPLE_ROWS}`,
  0,
  null,
)

// The options of `plan` and `run` that select rows.

export const limitOption = wholeNumberOption(
  '--limit <N>',
  'maximum number of rows per source, including those of an interrupted run and those beyond the budget',
  1,
  null,
)
export const budgetOption = lookupBudgetOption(
  '--budget <N|unlimited>',
  "maximum number of lookups, shared over the sources; 0: only rows that cost nothing; default: the configuration's budget",
)
export const whereOption = textOption(
  '--where <SQL>',
  'only rows that match this condition; the table is t, as in the configuration',
)
export const routeOption = choiceOption(
  '--route <auto|sync|bulk>',
  'sync: one call per lookup; bulk: jobs of up to 100; default: auto',
  ['auto', 'sync', 'bulk'],
  'auto',
)
