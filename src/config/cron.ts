import { Cron, CronPattern } from 'croner'
import type { z } from 'zod'
import { quote } from './show.ts'
import { didYouMean } from './suggest.ts'

/** Without seconds: a pass takes longer than that, and Quartz's six fields would silently mean something else. */
const cronMode = '5-part'

const expectedCron =
  "five fields, minute hour day-of-month month day-of-week, such as '0 2 * * *', or a name such as @daily"

/** Any moment will do: the question is whether the text ever comes true, and five fields hold no year. */
const someMoment = new Date('2024-01-01T00:00:00Z')

/** A refinement: the text is a cron pattern, and comes true at some time. */
export function checkCron(text: string, context: z.core.$RefinementCtx): void {
  const refuse = (reason: string) =>
    context.addIssue({
      code: 'custom',
      message: expectedCron,
      params: { found: `${quote(text)}: ${reason}` },
    })
  try {
    // Not `new Cron` alone: it takes a date and time too, which comes true once.
    const pattern = new CronPattern(text, undefined, { mode: cronMode })
    if (new Cron(pattern.pattern, { paused: true, mode: cronMode }).nextRun(someMoment) === null) {
      refuse('it never comes true')
    }
  } catch (error) {
    refuse(reasonOf(error))
  }
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const reason = message.replace(/^CronPattern: /, '').replace(/\.$/, '')
  return /format|parts/.test(reason) ? 'not five fields' : reason.replace(/^Invalid value/, 'invalid value')
}

/** A refinement: the name of a time zone that this Node knows. */
export function checkTimezone(name: string, context: z.core.$RefinementCtx): void {
  if (!isTimezone(name)) {
    context.addIssue({
      code: 'custom',
      message: "the IANA name of a time zone, such as 'Europe/Oslo' or 'UTC'",
      params: { todo: didYouMean(name, Intl.supportedValuesOf('timeZone')) },
    })
  }
}

function isTimezone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) instanceof Intl.DateTimeFormat
  } catch {
    return false
  }
}
