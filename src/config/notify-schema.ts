import { z } from 'zod'
import { NOTICES } from '../domain/notice.ts'
import { choice, objectOr } from './leaves.ts'

const expectedUrl = "an http or https address, such as 'https://ops.example.com/fillrate'"

const url = z.string({ error: expectedUrl }).refine((text) => isHttp(text), { error: expectedUrl })

function isHttp(text: string): boolean {
  try {
    return /^https?:$/.test(new URL(text).protocol)
  } catch {
    return false
  }
}

const target = z.strictObject(
  {
    url: url.optional().describe('Default: FILLRATE_NOTIFY_URL, for addresses that are secret.'),
    form: choice(['json', 'slack'])
      .optional()
      .describe('A signed JSON body, or `{ text }` as Slack takes it. Default: json.'),
    on: z
      .array(choice(NOTICES), { error: 'a list of events' })
      .min(1, { error: 'at least one event; leave `on` out for all' })
      .optional()
      .describe('Of which events. Default: all.'),
  },
  { error: objectOr("{ url: 'https://ops.example.com/fillrate' }") },
)

/** Whom to tell of runs and jobs. */
export const notifySchema = z
  .array(target, { error: "a list of targets such as { url: 'https://ops.example.com/fillrate' }" })
  .describe('Whom to tell when a run ends, fails, reaches its budget or finds nothing, or a job is late.')
