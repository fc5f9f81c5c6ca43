import { z } from 'zod'
import { NOTIFICATION_KINDS } from '../domain/run.ts'
import { oneOfStrings, objectLike } from './primitives.ts'

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = z.string({ error: EXPECTED_URL }).refine((text) => isHttpUrl(text), { error: EXPECTED_URL })

function isHttpUrl(text: string): boolean {
  try {
    return /^https?:$/.test(new URL(text).protocol)
  } catch {
    return false
  }
}

const notifyTarget = z.strictObject(
  {
    url: httpUrl.optional().describe('Default: FILLRATE_NOTIFY_URL, for addresses that are secret.'),
    form: oneOfStrings(['json', 'slack'])
      .optional()
      .describe('A signed JSON body, or `{ text }` as Slack takes it. Default: json.'),
    on: z
      .array(oneOfStrings(NOTIFICATION_KINDS), { error: 'a list of events' })
      .min(1, { error: 'at least one event; leave `on` out for all' })
      .optional()
      .describe('Of which events. Default: all.'),
  },
  { error: objectLike("{ url: 'https://ops.example.com/fillrate' }") },
)

/** Whom to tell of runs and jobs. */
export const notifySchema = z
  .array(notifyTarget, { error: "a list of targets such as { url: 'https://ops.example.com/fillrate' }" })
  .describe('Whom to tell when a run ends, fails, reaches its budget or finds nothing, or a job is late.')
