import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { ROUTES } from '../domain/route.ts'
import { parseDuration } from '../util/text.ts'

/** Thrown by a parser of a value. commander says before it which option or argument has which text. */
export class ExpectedError extends InvalidArgumentError {
  constructor(expected: string) {
    super(`Expected ${expected}.`)
  }
}

// Parsers of values, for `option()` and `argument()`.

export function parseText(text: string): string {
  if (text.trim() === '') throw new ExpectedError('a text that is not empty')
  // commander takes an option in the place of a value for the value.
  if (/^--[a-z][\w-]*$/.test(text)) throw new ExpectedError('a text that is not an option')
  return text
}

/** A whole number. Thousands separators are accepted: `10,000`, `10_000`. */
export const parseWholeFrom =
  (min: number, what = 'a whole number', max = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const plain = text.trim()
    const read = /^\d+$|^\d{1,3}([,_]\d{3})+$/.test(plain) ? Number(plain.replace(/[,_]/g, '')) : Number.NaN
    if (!(read >= min && read <= max)) throw new ExpectedError(min > 0 ? `${what} from ${min}` : what)
    return read
  }

export const parsePortNumber = parseWholeFrom(0, 'a port, 0 to 65535', 65_535)

/** A duration with its unit, in milliseconds. `0` needs no unit. */
export function parseMs(text: string): number {
  if (text.trim() === '0') return 0
  const read = parseDuration(text)
  if (read === null) throw new ExpectedError("a duration with its unit, such as '500ms', '30s' or '30m'")
  return read
}

export const parseRunNumber = parseWholeFrom(0, 'the number of a run, as `fillrate runs` lists them')

/** A list of states, separated by commas. */
export const statesOption = <const Flags extends string, State extends string, Default>(
  flags: Flags,
  help: string,
  known: readonly State[],
  fallback: Default,
) =>
  new Option(flags, help)
    .argParser((text): readonly State[] =>
      text.split(',').map((word) => {
        const state = known.find((choice) => choice === word.trim().toLowerCase().replaceAll(/[\s-]/g, '_'))
        if (state === undefined) throw new ExpectedError(formatChoices(known))
        return state
      }),
    )
    .default(fallback)

/** `a, b or c`. */
export function formatChoices(words: readonly string[]): string {
  const last = words.at(-1) ?? ''
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`
}

/** Of a command that changes data. */
export const yesOption = new Option('-y, --yes', 'act; without it only --dry-run is allowed').default(false)

/** Rows that a dry run of `run` or `remap` shows before and after. */
export const DRY_RUN_SAMPLE_ROWS = 20

/** The port of `serve` and `start`. */
export const portOption = new Option('--port <N>', 'default: FILLRATE_PORT, else any free port')
  .argParser(parsePortNumber)
  .default(null)

// The options of `plan` and `run` that select rows.

export const limitOption = new Option(
  '--limit <N>',
  'maximum number of rows per source, including those of an interrupted run and those beyond the budget',
)
  .argParser(parseWholeFrom(1))
  .default(null)
export const budgetOption = new Option(
  '--budget <N|unlimited>',
  "maximum number of lookups, shared over the sources; 0: only rows that cost nothing; default: the configuration's budget",
)
  .argParser((text): number | 'unlimited' =>
    text.trim().toLowerCase() === 'unlimited'
      ? 'unlimited'
      : parseWholeFrom(0, "a whole number or 'unlimited'")(text),
  )
  .default(null)
export const whereOption = new Option(
  '--where <SQL>',
  'only rows that match this condition; the table is t, as in the configuration',
)
  .argParser(parseText)
  .default(null)
export const routeOption = new Option(
  '--route <auto|sync|bulk>',
  'sync: one call per lookup; bulk: jobs of up to 100; default: auto',
)
  .choices(ROUTES)
  .default('auto')
