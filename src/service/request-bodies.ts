import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { cleanText } from '../domain/text.ts'
import { parseJson } from '../domain/json.ts'
import type { ParsedJson } from '../domain/json.ts'
import type { CompanyInput, PersonInput } from '../domain/service/adapter.ts'
import { kindOfInput } from '../domain/service/job-inputs.ts'
import type { JobInput } from '../domain/service/messages.ts'
import type { BulkCall } from '../domain/service/service.ts'

const requiredText = z.string().trim().min(1)

const optionalText = requiredText.exactOptional()
const named = { name: requiredText, firstName: optionalText, lastName: optionalText }

const personInputSchema = z.union([
  z.object({ email: requiredText }),
  z.object({ linkedinUrl: requiredText }),
  z.object({ ...named, company: requiredText, companyDomain: optionalText }),
  z.object({ ...named, companyDomain: requiredText }),
])
const companyInputSchema = z.object({ domain: requiredText })
const webhookUrlSchema = z.url({ protocol: /^https?$/ }).nullable()

/**
 * Checks an input before a call is made and billed: an invalid one is a TypeError. The messages name fields and never
 * quote a value.
 */
export const parsePersonInput = (input: PersonInput): PersonInput =>
  parseInput(personInputSchema, input, 'email, or linkedinUrl, or name and company')

export const parseCompanyInput = (input: CompanyInput): CompanyInput =>
  parseInput(companyInputSchema, input, 'a domain')

/** Checks what a job is to carry. @returns its inputs, trimmed */
export function parseJobRequest(
  request: { readonly inputs: readonly JobInput[]; readonly webhookUrl: string | null },
  bulk: Pick<BulkCall, 'size' | 'kinds' | 'needsWebhook'>,
): readonly JobInput[] {
  const { size, kinds, needsWebhook } = bulk
  const one: z.ZodType<JobInput> = kinds.includes('domain') ? companyInputSchema : personInputSchema
  const schema = z.object({
    inputs: z
      .array(one.refine((input) => kinds.includes(kindOfInput(input))))
      .min(1)
      .max(size),
    webhookUrl: webhookUrlSchema.refine((url) => url !== null || !needsWebhook),
  })
  const expected = `1 to ${size} inputs (${kinds.join(', ')}), none empty, and an http or https webhookUrl`
  return parseInput<{ inputs: readonly JobInput[] }>(schema, request, expected).inputs
}

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
