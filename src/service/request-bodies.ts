import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { cleanText } from '../domain/text.ts'
import { parseJson } from '../domain/json.ts'
import type { ParsedJson } from '../domain/json.ts'
import type { CompanyInput, PersonInput } from '../domain/service/adapter.ts'
import type { BulkInput } from '../domain/service/messages.ts'
import type { BulkCall } from '../domain/service/service.ts'

const requiredText = z.string().trim().min(1)

const personInputSchema = z.union([
  z.object({ email: requiredText }),
  z.object({ linkedinUrl: requiredText }),
  z.object({ name: requiredText, company: requiredText }),
])
const companyInputSchema = z.object({ domain: requiredText })
const bulkInputSchema = z.object({
  emails: z.array(requiredText).min(1),
  webhookUrl: z.url({ protocol: /^https?$/ }).nullable(),
})

/**
 * Checks an input before a call is made and billed: an invalid one is a TypeError. The messages name fields and never
 * quote a value.
 */
export const parsePersonInput = (input: PersonInput): PersonInput =>
  parseInput(personInputSchema, input, 'email, or linkedinUrl, or name and company')

export const parseEmailInput = (email: string): PersonInput =>
  parseInput(z.object({ email: requiredText }), { email }, 'an email')

export const parseCompanyInput = (input: CompanyInput): CompanyInput =>
  parseInput(companyInputSchema, input, 'a domain')

export const parseBulkInput = (
  input: BulkInput,
  { size, needsWebhook }: Pick<BulkCall, 'size' | 'needsWebhook'>,
): BulkInput =>
  parseInput(
    bulkInputSchema.refine(
      ({ emails, webhookUrl }) => emails.length <= size && !(needsWebhook && webhookUrl === null),
    ),
    input,
    `1 to ${size} emails, none empty, and an http or https webhookUrl`,
  )

function parseInput<T>(schema: z.ZodType<T>, input: unknown, expected: string): T {
  const result = schema.safeParse(input)
  if (result.success) return result.data
  throw new TypeError(`invalid input: expected ${expected}`)
}

/** Parses the JSON of a response, its strings cleaned of what Postgres cannot store. */
export function parseResponseBody(bytes: Buffer): ParsedJson {
  if (!isUtf8(bytes)) return { ok: false, reason: 'not UTF-8' }
  const json = bytes.toString('utf8')
  const parsed = parseJson(json)
  if (!parsed.ok) return parsed
  // NUL and lone surrogates occur in JSON only as escapes, so most texts need no cleaning.
  return { ok: true, value: json.includes('\\u') ? cleanText(parsed.value) : parsed.value }
}
