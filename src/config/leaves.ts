import { isRegExp } from 'node:util/types'
import { z } from 'zod'
import { oneOf, quote } from './show.ts'

/**
 * The leaves of the schema. The error of each says what was expected there: `issues.ts` puts it into a
 * message with the place and what was found.
 */
export const text = (expected: string) =>
  z.string({ error: expected }).refine((value) => value.trim() !== '', { error: expected, abort: true })

export const choice = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: oneOf(values) })

export const flag = z.boolean({ error: 'true or false' })

export const whole = (minimum: number, maximum: number) => {
  const error = `a whole number from ${minimum} to ${maximum}`
  return z.int({ error }).min(minimum, { error }).max(maximum, { error })
}

export const share = (maximum: number) => {
  const error = `a number from 0 to ${maximum}`
  return z.number({ error }).min(0, { error }).max(maximum, { error })
}

export const sql = (example: string) => text(`an SQL expression, such as "${example}"`)

export const objectOr = (example: string) => `an object such as ${example}`

export const columnName = text('a column name')

const expectedPattern = 'a regular expression: /^\\+\\d{8,15}$/ in code, "^\\\\+\\\\d{8,15}$" in JSON'

/** A regular expression, out of which come its source and flags. */
export const pattern = z
  .union([text(expectedPattern), z.custom<RegExp>(isRegExp)], { error: expectedPattern })
  .transform((value, context) => {
    const refuse = (todo: string | null, found?: string) => {
      context.addIssue({ code: 'custom', message: expectedPattern, params: { todo, found } })
      return z.NEVER
    }
    if (typeof value !== 'string') {
      // A test with g or y remembers where it stopped: an equal value would match only every other time.
      if (/[gy]/.test(value.flags)) return refuse('Leave out the flags g and y.')
      return { source: value.source, flags: value.flags }
    }
    if (/^\/.*\/[a-z]*$/s.test(value))
      return refuse('In a text, leave out the slashes around it, and the flags.')
    try {
      return { source: new RegExp(value).source, flags: '' }
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(/^.*: /s, '') : String(error)
      return refuse(null, `${quote(value)}: ${reason}`)
    }
  })
