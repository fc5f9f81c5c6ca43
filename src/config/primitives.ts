import { isAsyncFunction, isRegExp } from 'node:util/types'
import { z } from 'zod'
import { didYouMean, oneOf, quoteText, parseDuration } from '../util/text.ts'
import { Cron, CronPattern } from 'croner'

export type Reject = (
  path: readonly PropertyKey[],
  /** Undefined: the value itself is shown. */
  found: string | undefined,
  expected: string,
  todo?: string | null,
) => void

/** Adds problems that a function finds, each at a path below its value. */
export const rejecting =
  (context: z.core.$RefinementCtx): Reject =>
  (path, found, expected, todo) =>
    context.addIssue({ code: 'custom', path: [...path], message: expected, params: { found, todo } })

/**
 * The primitives of the schema. The error of each says what was expected; `problems.ts` combines it with
 * the place and what was found.
 */
export const requiredString = (expected: string) =>
  z.string({ error: expected }).refine((value) => value.trim() !== '', { error: expected, abort: true })

/** A text of this form. */
export const textLike = (pattern: RegExp, expected: string) =>
  z.string({ error: expected }).regex(pattern, { error: expected })

/** A text that passes a check. */
export const textThat = (isRight: (text: string) => boolean, expected: string, found?: string) =>
  z.string({ error: expected }).refine(isRight, { error: expected, params: { found } })

/** A list of one or more. */
export const listOf = <Item extends z.ZodType>(item: Item, expected: string, least: string) =>
  z.array(item, { error: expected }).min(1, { error: least })

export const oneOfStrings = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: oneOf(values) })

export const booleanFlag = z.boolean({ error: 'true or false' })

export const integerBetween = (minimum: number, maximum: number) => {
  const error = `a whole number from ${minimum} to ${maximum}`
  return z.int({ error }).min(minimum, { error }).max(maximum, { error })
}

export const fraction = (maximum: number) => {
  const error = `a number from 0 to ${maximum}`
  return numberFromZero(error).max(maximum, { error })
}

export const numberFromZero = (error: string) => z.number({ error }).min(0, { error })

export const countFromZero = (error: string) => z.int({ error }).min(0, { error })

const EXPECTED_FUNCTION = 'a function that returns the value itself'
/** A function of a service's description. */
export const aFunction = z
  .custom<(...values: never[]) => unknown>((value) => typeof value === 'function', {
    error: EXPECTED_FUNCTION,
  })
  .superRefine((value, context) => {
    if (!isAsyncFunction(value)) return
    const todo = 'Leave out `async`: every function of a description is pure, and waits for nothing.'
    rejecting(context)([], 'an async function, which returns a promise', EXPECTED_FUNCTION, todo)
  })

export const sqlExpression = (example: string) => requiredString(`an SQL expression, such as "${example}"`)

/** One condition or a list of them; parses to the list. */
export const sqlConditions = (example: string) =>
  z
    .union([sqlExpression(example), z.array(sqlExpression(example))], {
      error: `an SQL expression, such as "${example}", or a list of them`,
    })
    .optional()
    .transform((where) => (where === undefined ? [] : [where].flat()))

/** What is left out is null. */
export const orNull = <Schema extends z.ZodType>(schema: Schema) =>
  schema.optional().transform((value): z.output<Schema> | null => value ?? null)

export const objectLike = (example: string) => `an object such as ${example}`

/** An object. The message of an unknown key lists the known ones. */
export const objectOf = <const Shape extends z.core.$ZodLooseShape>(shape: Shape, example = '{ … }') =>
  z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? Object.keys(shape).join(', ') : objectLike(example)),
  })

/** Of a record; a dot leads into an object. */
export const FIELD_PATH = /^[^\s.]+(?:\.[^\s.]+)*$/

export const columnNameText = requiredString('a column name')

const EXPECTED_PATTERN = 'a regular expression: /^\\+\\d{8,15}$/ in code, "^\\\\+\\\\d{8,15}$" in JSON'

/** A regular expression; parses to its source and flags. */
export const regularExpression = z
  .union([requiredString(EXPECTED_PATTERN), z.custom<RegExp>(isRegExp)], { error: EXPECTED_PATTERN })
  .transform((value, context) => {
    const reject = (todo: string | null, found?: string) => {
      rejecting(context)([], found, EXPECTED_PATTERN, todo)
      return z.NEVER
    }
    if (typeof value !== 'string') {
      // With g or y a RegExp keeps its position, so an equal value would match only every other time.
      if (/[gy]/.test(value.flags)) return reject('Leave out the flags g and y.')
      return { source: value.source, flags: value.flags }
    }
    if (/^\/.*\/[a-z]*$/s.test(value))
      return reject('In a text, leave out the slashes around it, and the flags.')
    try {
      return { source: new RegExp(value).source, flags: '' }
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(/^.*: /s, '') : String(error)
      return reject(null, `${quoteText(value)}: ${reason}`)
    }
  })

const EXPECTED_DURATION = "a duration with its unit, such as '30s', '15m', '6h' or '90d'"

export const durationText = (minimumMs: number) =>
  z.string({ error: EXPECTED_DURATION }).transform((value, context) => {
    const parsed = parseDuration(value)
    if (parsed !== null && parsed >= minimumMs) return parsed
    const expected = parsed === null ? EXPECTED_DURATION : 'a duration above zero'
    context.addIssue({ code: 'custom', message: expected })
    return z.NEVER
  })

/** Without seconds: a pass takes longer, and Quartz's six fields would silently mean something else. */
const CRON_MODE = '5-part'

const EXPECTED_CRON =
  "five fields, minute hour day-of-month month day-of-week, such as '0 2 * * *', or a name such as @daily"

/** Any time will do: five fields hold no year, so a pattern matches some time after it or never. */
const REFERENCE_TIME = new Date('2024-01-01T00:00:00Z')

/** A refinement: the text is a cron pattern that matches some time. */
export function checkCron(text: string, context: z.core.$RefinementCtx): void {
  const reject = (reason: string) => rejecting(context)([], `${quoteText(text)}: ${reason}`, EXPECTED_CRON)
  try {
    // Not `new Cron` alone, which also accepts a single date and time.
    const pattern = new CronPattern(text, undefined, { mode: CRON_MODE })
    if (new Cron(pattern.pattern, { paused: true, mode: CRON_MODE }).nextRun(REFERENCE_TIME) === null) {
      reject('it never matches')
    }
  } catch (error) {
    reject(describeCronError(error))
  }
}

function describeCronError(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const reason = message.replace(/^CronPattern: /, '').replace(/\.$/, '')
  return /format|parts/.test(reason) ? 'not five fields' : reason.replace(/^Invalid value/, 'invalid value')
}

/** A refinement: a time zone that this Node knows. */
export function checkTimezone(name: string, context: z.core.$RefinementCtx): void {
  if (!isTimezone(name)) {
    const todo = didYouMean(name, Intl.supportedValuesOf('timeZone'))
    rejecting(context)([], undefined, "the IANA name of a time zone, such as 'Europe/Oslo' or 'UTC'", todo)
  }
}

function isTimezone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) instanceof Intl.DateTimeFormat
  } catch {
    return false
  }
}
