import { Option } from '@commander-js/extra-typings'
import { parseDuration } from '../config/primitives.ts'
import { quoteText } from '../util/text.ts'

/** A word of the command line can't be read. The message says what was expected and what was found. */
export class InvalidValueError extends Error {
  override readonly name = 'InvalidValue'
  readonly suggestion: string | null

  constructor(message: string, suggestion: string | null = null) {
    super(message)
    this.suggestion = suggestion
  }
}

/** Thrown by a parser: ends the sentence "expected …". */
class Expected extends Error {}

/** A flag in the place of a value, as in `--limit --dry-run`. A negative number is a wrong value, and its parser says so. */
const FLAG = /^--?[a-z][\w-]*$/i

/** @throws InvalidValue */
function parseValue<Value>(option: Option, parse: (text: string) => Value, text: string): Value {
  if (FLAG.test(text)) throw createMissingValueError(option)
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof Expected)) throw error
    throw new InvalidValueError(`${option.long}: expected ${error.message}, found ${quoteText(text)}`)
  }
}

export const createMissingValueError = (option: Option): InvalidValueError =>
  new InvalidValueError(`${option.long} needs a value: ${option.long} ${valuePlaceholder(option)}`)

/** What stands for the value in help, such as `N`; null for a switch. */
export const valuePlaceholder = ({ flags }: Option): string | null => /<(.*)>/.exec(flags)?.[1] ?? null

function valued<const Flags extends string, Value, const Default>(
  flags: Flags,
  help: string,
  absent: Default,
  parse: (text: string) => Value,
) {
  const option = new Option(flags, help)
  return option.argParser<Value>((text) => parseValue(option as Option, parse, text)).default(absent)
}

/** An option that may be given several times; `join` combines the values. */
export function repeatableOption<const Flags extends string, Value, Default>(
  flags: Flags,
  help: string,
  absent: Default,
  parse: (text: string) => Value,
  join: (before: Value, next: Value) => Value,
) {
  const option = new Option(flags, help)
  return option
    .argParser<Value | Default>((text, before) => {
      const next = parseValue(option as Option, parse, text)
      return before === absent ? next : join(before as Value, next)
    })
    .default(absent as Default)
}

export const booleanOption = <const Flags extends string>(flags: Flags, help: string) =>
  new Option(flags, help).default(false)

export const textOption = <const Flags extends string>(flags: Flags, help: string) =>
  valued(flags, help, null, parseText)

export function parseText(given: string): string {
  if (given.trim() === '') throw new Expected('a text that is not empty')
  return given
}

export function choiceOption<const Flags extends string, const Word extends string, const Default>(
  flags: Flags,
  help: string,
  words: readonly Word[],
  absent: Default,
) {
  return valued(flags, help, absent, (given): Word => {
    const word = words.find((one) => one === given.trim().toLowerCase())
    if (word === undefined) throw new Expected(formatChoices(words))
    return word
  })
}

/** A whole number, also as it is printed: `10,000` and `10_000`. */
export function wholeNumberOption<const Flags extends string, Default extends number | null>(
  flags: Flags,
  help: string,
  min: number,
  absent: Default,
) {
  return valued<Flags, number, Default>(flags, help, absent, (given) =>
    parseWhole(given, min, 'a whole number'),
  )
}

export function portOption<const Flags extends string, Default extends number | null>(
  flags: Flags,
  help: string,
  absent: Default,
) {
  return valued<Flags, number, Default>(flags, help, absent, (given) => {
    const read = parseWhole(given, 0, 'a port, 0 to 65535')
    if (read > 65_535) throw new Expected('a port, 0 to 65535')
    return read
  })
}

export const lookupBudgetOption = <const Flags extends string>(flags: Flags, help: string) =>
  valued(flags, help, null, (given): number | 'unlimited' =>
    given.trim().toLowerCase() === 'unlimited'
      ? 'unlimited'
      : parseWhole(given, 0, "a whole number or 'unlimited'"),
  )

/** Milliseconds, from a duration with its unit; `0` needs none. */
export const durationOption = <const Flags extends string>(flags: Flags, help: string, absent: number) =>
  valued<Flags, number, number>(flags, help, absent, parseMs)

/** Milliseconds, or two of them as `20-200ms`. */
export const durationRangeOption = <const Flags extends string>(flags: Flags, help: string) =>
  valued(flags, help, null, (given): number | readonly [number, number] => {
    const [low = '', high, more] = given.split('-').map((side) => side.trim())
    if (high === undefined) return parseMs(low)
    const unit = /[a-z]+$/i.exec(high)?.[0] ?? ''
    const from = parseMs(/[a-z]$/i.test(low) ? low : low + unit)
    const to = parseMs(high)
    if (more !== undefined || from > to)
      throw new Expected("two durations, the shorter first, such as '20-200ms'")
    return [from, to]
  })

/** One state or several with commas; may be given several times. */
export const statesOption = <const Flags extends string, State extends string, Default>(
  flags: Flags,
  help: string,
  known: readonly State[],
  absent: Default,
) =>
  repeatableOption(
    flags,
    help,
    absent,
    (given): readonly State[] =>
      given.split(',').map((word) => {
        const state = known.find((one) => one === word.trim().toLowerCase().replaceAll(/[\s-]/g, '_'))
        if (state === undefined) throw new Expected(formatChoices(known))
        return state
      }),
    (before, next) => [...before, ...next],
  )

/** Makes a parser of another module, whose error message says what was expected, one for options. */
export const expecting =
  <Value>(parse: (text: string) => Value) =>
  (given: string): Value => {
    try {
      return parse(given)
    } catch (error) {
      throw new Expected((error as Error).message)
    }
  }

function parseWhole(given: string, min: number, what: string): number {
  const plain = given.trim()
  const read = /^\d+$|^\d{1,3}([,_]\d{3})+$/.test(plain) ? Number(plain.replace(/[,_]/g, '')) : Number.NaN
  if (!Number.isSafeInteger(read) || read < min) throw new Expected(min > 0 ? `${what} from ${min}` : what)
  return read
}

function parseMs(given: string): number {
  if (given.trim() === '0') return 0
  const read = parseDuration(given)
  if (read === null) throw new Expected("a duration with its unit, such as '500ms', '30s' or '30m'")
  return read
}

/** `a, b or c`. */
export function formatChoices(words: readonly string[]): string {
  const last = words.at(-1) ?? ''
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`
}

/** The options of `plan` and `run` that say what is picked. */
export const limitOption = wholeNumberOption(
  '--limit <N>',
  'rows of each source, at the most; what an interrupted run left counts',
  1,
  null,
)
export const budgetOption = lookupBudgetOption(
  '--budget <N|unlimited>',
  "lookups that may be asked; default: the configuration's budget",
)
export const whereOption = textOption(
  '--where <SQL>',
  'only rows for which this is true; the table is t, as in the configuration',
)
export const routeOption = choiceOption(
  '--route <auto|sync|bulk>',
  'one call a lookup, or jobs of 100; default: auto',
  ['auto', 'sync', 'bulk'],
  'auto',
)
