import { z } from 'zod'
import { CONDITION_KINDS } from '../condition.ts'
import { is, object, type ReportOf } from './shape.ts'

/** The body of a notification in its JSON form. */
export type FillrateNotification = ReportOf<typeof notification>
export const notification = object({
  event_id: is.text('the same in every attempt and for every target, so that a receiver can drop duplicates'),
  event: z.enum(['condition_began', 'condition_ended']).describe('what happened to the condition'),
  at: is.isoTime('when it happened'),
  severity: z.enum(['error', 'warning', 'info']).describe('`info`: its end'),
  title: is.text('what happened, in one sentence'),
  meaning: is.orNull(is.text('what it means for the rows')),
  action: is.orNull(is.text('what to do')),
  link: is.orNull(is.text('the page of the dashboard')),
  duration_ms: is.orNull(is.count('how long it lasted')),
  condition: object({
    kind: z.enum(CONDITION_KINDS).describe('see below'),
    service: is.orNull(is.text('the service at fault')),
    source: is.orNull(is.text('the source, or several; of a late schedule, the schedule')),
    since: is.isoTime('when it began'),
    ended_at: is.orNull(is.isoTime('when it ended; null: it lasts')),
    details: is.byName('what the sentences name: `reason`, `waiting`, `until`, `run`', z.unknown()),
  }).describe('what the notification is about'),
})
