import { parseDuration } from '../config/duration.ts'

/** A flag's value can't be read. `expected` ends the sentence "expected …". */
export class Unreadable extends Error {
  readonly expected: string

  constructor(expected: string) {
    super(`expected ${expected}`)
    this.expected = expected
  }
}

/** One flag of a command: how it is read, and what help says of it. Both from here, so that they can't disagree. */
export interface Flag<Value> {
  /** What stands for the value in help: `N`. Null: a switch. */
  readonly placeholder: string | null
  readonly short: string | null
  readonly help: string
  /** The value when it is not given. */
  readonly absent: Value
  /** @throws Unreadable */
  readonly read: (text: string) => Value
  /** May be given more than once; the texts are joined by commas. */
  readonly repeats: boolean
}

type Rest = Partial<Pick<Flag<unknown>, 'short' | 'repeats'>>

function flag<Value>(
  placeholder: string | null,
  help: string,
  absent: Value,
  read: (text: string) => Value,
  rest: Rest = {},
): Flag<Value> {
  return { placeholder, help, absent, read, short: null, repeats: false, ...rest }
}

export function toggle(help: string, rest: Rest = {}): Flag<boolean> {
  return flag<boolean>(null, help, false, () => true, rest)
}

export function text(placeholder: string, help: string, rest: Rest = {}): Flag<string | null> {
  return flag<string | null>(
    placeholder,
    help,
    null,
    (given) => {
      if (given.trim() === '') throw new Unreadable('a text that is not empty')
      return given
    },
    rest,
  )
}

export function oneOf<const Word extends string, Absent extends Word | null>(
  words: readonly Word[],
  help: string,
  absent: Absent,
  placeholder: string = words.join('|'),
): Flag<Word | Absent> {
  return flag<Word | Absent>(placeholder, help, absent, (given) => {
    const word = words.find((one) => one === given.trim().toLowerCase())
    if (word === undefined) throw new Unreadable(listed(words))
    return word
  })
}

/** A whole number, also as it is printed: `10,000` and `10_000`. */
export function wholeNumber<Absent extends number | null>(
  help: string,
  from: number,
  absent: Absent,
): Flag<number | Absent> {
  return flag<number | Absent>('N', help, absent, (given) => readWhole(given, from, 'a whole number'))
}

export function port(help: string, absent: number | null): Flag<number | null> {
  return flag<number | null>('N', help, absent, (given) => {
    const read = readWhole(given, 0, 'a port, 0 to 65535')
    if (read > 65_535) throw new Unreadable('a port, 0 to 65535')
    return read
  })
}

export function budget(help: string): Flag<number | 'unlimited' | null> {
  return flag<number | 'unlimited' | null>('N|unlimited', help, null, (given) =>
    given.trim().toLowerCase() === 'unlimited'
      ? 'unlimited'
      : readWhole(given, 0, "a whole number or 'unlimited'"),
  )
}

/** Milliseconds, from a duration with its unit; `0` needs none. */
export function duration(placeholder: string, help: string, absent: number): Flag<number> {
  return flag(placeholder, help, absent, readDuration)
}

/** Milliseconds, or two of them as `20-200ms`. */
export function durationRange(
  placeholder: string,
  help: string,
): Flag<number | readonly [number, number] | null> {
  return flag<number | readonly [number, number] | null>(placeholder, help, null, (given) => {
    const [low = '', high, more] = given.split('-').map((side) => side.trim())
    if (high === undefined) return readDuration(low)
    const unit = /[a-z]+$/i.exec(high)?.[0] ?? ''
    const from = readDuration(/[a-z]$/i.test(low) ? low : low + unit)
    const to = readDuration(high)
    if (more !== undefined || from > to)
      throw new Unreadable("two durations, the shorter first, such as '20-200ms'")
    return [from, to]
  })
}

/** Read by somebody else, whose error message says what was expected. */
export function readBy<Value>(
  placeholder: string,
  help: string,
  absent: Value,
  parse: (text: string) => Value,
  rest: Rest = {},
): Flag<Value> {
  return flag(
    placeholder,
    help,
    absent,
    (given) => {
      try {
        return parse(given)
      } catch (error) {
        throw new Unreadable((error as Error).message)
      }
    },
    rest,
  )
}

function readWhole(given: string, from: number, what: string): number {
  const plain = given.trim()
  const read = /^\d+$|^\d{1,3}([,_]\d{3})+$/.test(plain) ? Number(plain.replace(/[,_]/g, '')) : Number.NaN
  if (!Number.isSafeInteger(read) || read < from)
    throw new Unreadable(from > 0 ? `${what} from ${from}` : what)
  return read
}

function readDuration(given: string): number {
  if (given.trim() === '0') return 0
  const read = parseDuration(given)
  if (read === null) throw new Unreadable("a duration with its unit, such as '500ms', '30s' or '30m'")
  return read
}

/** `a, b or c`. */
export function listed(words: readonly string[]): string {
  const last = words.at(-1) ?? ''
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`
}
