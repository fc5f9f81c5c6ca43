import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import {
  canonicalDomain,
  canonicalEmail,
  canonicalProfileUrl,
  collapseSpaces,
  parseWebhookUrl,
} from './normalize.ts'
import type { CompanyLookup } from './companies.ts'
import { ENDPOINTS, type SandboxEndpoint } from './faults.ts'
import type { PersonLookup } from './people.ts'

/** Emails in one bulk call at most. */
const MAX_BULK_EMAILS = 100

/** Why a call is rejected: with 400 if it cannot be parsed, with 422 if its input is invalid. */
class RequestProblem extends Error {
  readonly status: 400 | 422
  readonly code: string
  readonly inputs: readonly string[]

  constructor(status: 400 | 422, code: string, message: string, inputs: readonly string[] = []) {
    super(message)
    this.status = status
    this.code = code
    this.inputs = inputs
  }
}

/** A parsed call. `inputs` are the keys that it names, even if it is rejected. */
export type SandboxRequest = { readonly inputs: readonly string[] } & (
  | { readonly kind: 'problem'; readonly problem: RequestProblem }
  | { readonly kind: 'person'; readonly lookup: PersonLookup; readonly webhookUrl: URL | undefined }
  | { readonly kind: 'company'; readonly lookup: CompanyLookup; readonly webhookUrl: undefined }
  | { readonly kind: 'bulk'; readonly emails: readonly string[]; readonly webhookUrl: URL }
)

interface RawRequest {
  readonly method: string
  readonly contentType: string | undefined
  readonly query: URLSearchParams | undefined
  /** Undefined if it is too large. */
  readonly body: Buffer | undefined
}

/** The endpoint at a path, whatever the method. */
export function findEndpoint(path: string): SandboxEndpoint | undefined {
  return ENDPOINTS.find((endpoint) => endpoint.slice(endpoint.indexOf(' ') + 1) === path)
}

/** Parses a call to an endpoint, or says what is wrong with it. */
export function parseRequest(endpoint: SandboxEndpoint, call: RawRequest): SandboxRequest {
  try {
    return parseCall(endpoint, call)
  } catch (error) {
    if (!(error instanceof RequestProblem)) throw error
    return { kind: 'problem', problem: error, inputs: error.inputs }
  }
}

function parseCall(
  endpoint: SandboxEndpoint,
  { method, contentType, query, body }: RawRequest,
): SandboxRequest {
  if (body === undefined) throw unreadable('the body is larger than 1 MiB')
  if (!endpoint.startsWith(`${method} `))
    throw new RequestProblem(400, 'wrong_method', `expected ${endpoint}, found ${method}`)
  if (endpoint === 'GET /v1/company/enrich') return parseCompany(query)
  if (!/^application\/json\b/i.test(contentType ?? ''))
    throw unreadable('expected Content-Type: application/json')
  if (endpoint === 'POST /v1/person/bulk') return parseBulk(parseFields(bulkSchema, body))
  const fields = parseFields(personSchema, body)
  if (endpoint === 'POST /v1/person' && fields.email === undefined) throw invalid('email is missing')
  const lookup = parsePerson(fields)
  const inputs = [lookup.key]
  // In case it is answered 202.
  const webhookUrl = fields.webhook_url === undefined ? undefined : toWebhookUrl(fields.webhook_url, inputs)
  return { kind: 'person', lookup, inputs, webhookUrl }
}

const unreadable = (message: string) => new RequestProblem(400, 'unreadable_body', message)
const invalid = (message: string, inputs: readonly string[] = []) =>
  new RequestProblem(422, 'invalid_input', message, inputs)

const text = z.string('must be a string').optional()
const personSchema = z.object({
  email: text,
  linkedin_url: text,
  name: text,
  company: text,
  webhook_url: text,
})
const texts = 'must be an array of strings'
const bulkSchema = personSchema.extend({ emails: z.array(z.string(texts), texts).default([]) })

/** The fields of a JSON body. */
function parseFields<T>(schema: z.ZodType<T>, body: Buffer): T {
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    throw unreadable('the body is not JSON')
  }
  const { data, error } = schema.safeParse(parsed)
  const issue = error?.issues[0]
  if (issue === undefined) return data as T
  const [name] = issue.path
  if (name === undefined) throw unreadable('the body is not a JSON object')
  throw new RequestProblem(400, 'wrong_type', `${String(name)} ${issue.message}`)
}

function parsePerson({ email, linkedin_url: url, ...fields }: z.output<typeof personSchema>): PersonLookup {
  if (email !== undefined) {
    const key = canonicalEmail(email)
    if (key === undefined) throw invalid('email is not an email address', [collapseSpaces(email)])
    return { kind: 'email', key }
  }
  if (url !== undefined) {
    const key = canonicalProfileUrl(url)
    if (key === undefined) throw invalid('linkedin_url is not the URL of a profile', [collapseSpaces(url)])
    return { kind: 'linkedin', key, url: `https://${key}` }
  }
  const [name, company] = [collapseSpaces(fields.name), collapseSpaces(fields.company)]
  const key = `name:${name}|${company}`.toLowerCase()
  if (name === '' && company === '') throw invalid('expected email, linkedin_url, or name with company')
  if (name === '' || company === '') throw invalid('name and company are needed together', [key])
  return { kind: 'name', key, name, company }
}

function parseBulk({ emails, webhook_url: url }: z.output<typeof bulkSchema>): SandboxRequest {
  const keys = emails.map((email) => canonicalEmail(email))
  const inputs = emails.map((email, at) => keys[at] ?? collapseSpaces(email))
  if (emails.length === 0) throw invalid('emails is missing or empty')
  if (emails.length > MAX_BULK_EMAILS)
    throw invalid(`emails has ${emails.length} entries; at most ${MAX_BULK_EMAILS} are allowed`, inputs)
  const wrong = keys.flatMap((key, at) => (key === undefined ? [at] : []))
  if (wrong.length > 0)
    throw invalid(`emails at ${wrong.join(', ')} (from 0) are not email addresses`, inputs)
  if (url === undefined) throw invalid('webhook_url is missing', inputs)
  return { kind: 'bulk', emails, webhookUrl: toWebhookUrl(url, inputs), inputs }
}

function parseCompany(query: URLSearchParams | undefined): SandboxRequest {
  const [domain, name] = [query?.get('domain') ?? undefined, collapseSpaces(query?.get('name') ?? undefined)]
  const webhookUrl = undefined
  if (domain !== undefined) {
    const key = canonicalDomain(domain)
    if (key === undefined) throw invalid('domain is not a domain', [collapseSpaces(domain)])
    return { kind: 'company', lookup: { kind: 'domain', key }, inputs: [key], webhookUrl }
  }
  if (name === '') throw invalid('expected domain or name')
  const key = `company:${name}`.toLowerCase()
  return { kind: 'company', lookup: { kind: 'company', key, name }, inputs: [key], webhookUrl }
}

function toWebhookUrl(url: string, inputs: readonly string[]): URL {
  const webhookUrl = parseWebhookUrl(url)
  if (typeof webhookUrl === 'string') throw invalid(webhookUrl, inputs)
  return webhookUrl
}

/** The key that a call carries in any of the usual ways; null: none. */
export function readKey(headers: IncomingHttpHeaders, query: URLSearchParams | undefined): string | null {
  const [scheme = '', credentials = ''] = (headers.authorization ?? '').split(/ +/)
  if (/^bearer$/i.test(scheme)) return credentials
  // The key is the user name, the password is empty.
  if (/^basic$/i.test(scheme))
    return /^([^:]*):$/.exec(Buffer.from(credentials, 'base64').toString())?.[1] ?? ''
  const header = headers['x-api-key']
  return typeof header === 'string' ? header : (query?.get('api_key') ?? null)
}
