import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { cleanText } from '../domain/text.ts'
import { parseJson } from '../domain/json.ts'
import type { ParsedJson } from '../domain/json.ts'

/**
 * What identifies a person: exactly one of these.
 * @example
 * const input: PersonInput = { linkedinUrl: 'https://www.linkedin.com/in/jane-doe' }
 */
export type PersonInput = { email: string } | { linkedinUrl: string } | { name: string; company: string }

/**
 * What identifies a company.
 * @example
 * const input: CompanyInput = { domain: 'acme.com' }
 */
export type CompanyInput = { domain: string }

/**
 * 1 to 100 emails, and the http or https URL that receives their results.
 * @example
 * const input: BulkInput = { emails: ['jane@acme.com'], webhookUrl: 'https://example.com/webhooks/enrichment/42' }
 */
export type BulkInput = { emails: readonly string[]; webhookUrl: string }

const requiredText = z.string().trim().min(1)

const personInputSchema = z.union([
  z.object({ email: requiredText }).transform(({ email }) => ({ email })),
  z.object({ linkedinUrl: requiredText }).transform(({ linkedinUrl }) => ({ linkedin_url: linkedinUrl })),
  z
    .object({ name: requiredText, company: requiredText })
    .transform(({ name, company }) => ({ name, company })),
])
const companyInputSchema = z.object({ domain: requiredText })
const bulkInputSchema = z
  .object({ emails: z.array(requiredText).min(1).max(100), webhookUrl: z.url({ protocol: /^https?$/ }) })
  .transform(({ emails, webhookUrl }) => ({ emails, webhook_url: webhookUrl }))

/**
 * Builds what a request sends, or throws a TypeError before a call is made and billed. The messages name fields and
 * never quote a value.
 */
export const buildPersonBody = (input: PersonInput): string =>
  serializeInput(personInputSchema, input, 'email, or linkedinUrl, or name and company')

export const buildEmailBody = (email: string): string =>
  serializeInput(z.object({ email: requiredText }), { email }, 'an email')

export const buildCompanyQuery = (input: CompanyInput): string =>
  `domain=${encodeURIComponent(parseInput(companyInputSchema, input, 'a domain').domain.toWellFormed())}`

export const buildBulkBody = (input: BulkInput): string =>
  serializeInput(bulkInputSchema, input, '1 to 100 emails, none empty, and an http or https webhookUrl')

const serializeInput = (schema: z.ZodType, input: unknown, expected: string): string =>
  JSON.stringify(parseInput(schema, input, expected))

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
