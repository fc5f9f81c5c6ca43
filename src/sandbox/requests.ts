import {
  canonicalDomain,
  canonicalEmail,
  canonicalProfileUrl,
  collapseSpaces,
  parseWebhookUrl,
} from './normalize.ts'
import type { CompanyLookup, PersonLookup } from './records.ts'

/** The endpoints of service-interface.md, E1 to E4. */
const ENDPOINTS = [
  'POST /v1/person/enrich',
  'POST /v1/person',
  'GET /v1/company/enrich',
  'POST /v1/person/bulk',
] as const
export type SandboxEndpoint = (typeof ENDPOINTS)[number]

/** Emails in one bulk call (service-interface.md, Limits). */
const MAX_BULK_EMAILS = 100

/** A rejected call: 400 if it cannot be parsed, 422 if its input is invalid. */
interface RequestProblem {
  readonly status: 400 | 422
  readonly code: string
  readonly message: string
}

/** A parsed call. `inputs` are the keys that it names, even if it is rejected. */
export type SandboxRequest = { readonly inputs: readonly string[]; readonly webhookUrl?: URL } & (
  | { readonly kind: 'problem'; readonly problem: RequestProblem }
  | { readonly kind: 'person'; readonly lookup: PersonLookup }
  | { readonly kind: 'company'; readonly lookup: CompanyLookup }
  | { readonly kind: 'bulk'; readonly emails: readonly string[]; readonly webhookUrl: URL }
)

export interface RawRequest {
  readonly method: string
  readonly contentType: string | undefined
  readonly query: URLSearchParams | undefined
  readonly body: Buffer
}

type Fields = Readonly<Record<string, unknown>>

function problem(
  status: 400 | 422,
  code: string,
  message: string,
  inputs: readonly string[] = [],
): SandboxRequest {
  return { kind: 'problem', problem: { status, code, message }, inputs }
}

const invalid = (message: string, inputs: readonly string[] = []) =>
  problem(422, 'invalid_input', message, inputs)

/** The endpoint at a path, whatever the method. */
export function findEndpoint(path: string): SandboxEndpoint | undefined {
  return ENDPOINTS.find((endpoint) => endpoint.slice(endpoint.indexOf(' ') + 1) === path)
}

/** The fields of a JSON body, or what is wrong with it. */
function parseFields(
  { contentType, body }: RawRequest,
  texts: readonly string[],
): { fields: Fields } | { found: SandboxRequest } {
  if (!/^application\/json\b/i.test(contentType ?? '')) {
    return { found: problem(400, 'unreadable_body', 'expected Content-Type: application/json') }
  }
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    return { found: problem(400, 'unreadable_body', 'the body is not JSON') }
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    return { found: problem(400, 'unreadable_body', 'the body is not a JSON object') }
  }
  const fields: Fields = { ...parsed }
  const wrong = texts.find((name) => fields[name] !== undefined && typeof fields[name] !== 'string')
  if (wrong !== undefined) return { found: problem(400, 'wrong_type', `${wrong} must be a string`) }
  return { fields }
}

const textOf = (fields: Fields, name: string): string | undefined => {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

function person(lookup: PersonLookup): SandboxRequest {
  return { kind: 'person', lookup, inputs: [lookup.key] }
}

function parsePersonByEmail(email: string): SandboxRequest {
  const key = canonicalEmail(email)
  return key === undefined
    ? invalid('email is not an email address', [collapseSpaces(email)])
    : person({ kind: 'email', key })
}

function parsePerson(fields: Fields): SandboxRequest {
  const [email, url] = [textOf(fields, 'email'), textOf(fields, 'linkedin_url')]
  if (email !== undefined) return parsePersonByEmail(email)
  if (url !== undefined) {
    const key = canonicalProfileUrl(url)
    if (key === undefined) return invalid('linkedin_url is not the URL of a profile', [collapseSpaces(url)])
    return person({ kind: 'linkedin', key, url: `https://${key}` })
  }
  const [name, company] = [collapseSpaces(textOf(fields, 'name')), collapseSpaces(textOf(fields, 'company'))]
  const key = `name:${name}|${company}`.toLowerCase()
  if (name === '' && company === '') return invalid('expected email, linkedin_url, or name with company')
  if (name === '' || company === '') return invalid('name and company are needed together', [key])
  return person({ kind: 'name', key, name, company })
}

function parseBulk(fields: Fields): SandboxRequest {
  const { emails } = fields
  if (
    emails !== undefined &&
    !(Array.isArray(emails) && emails.every((email) => typeof email === 'string'))
  ) {
    return problem(400, 'wrong_type', 'emails must be an array of strings')
  }
  const list: readonly string[] = emails ?? []
  const keys = list.map((email) => canonicalEmail(email))
  const inputs = list.map((email, at) => keys[at] ?? collapseSpaces(email))
  if (list.length === 0) return invalid('emails is missing or empty')
  if (list.length > MAX_BULK_EMAILS) {
    return invalid(`emails has ${list.length} entries; at most ${MAX_BULK_EMAILS} are allowed`, inputs)
  }
  const wrong = keys.flatMap((key, at) => (key === undefined ? [at] : []))
  if (wrong.length > 0)
    return invalid(`emails at ${wrong.join(', ')} (from 0) are not email addresses`, inputs)
  const text = textOf(fields, 'webhook_url')
  if (text === undefined) return invalid('webhook_url is missing', inputs)
  const webhookUrl = parseWebhookUrl(text)
  return typeof webhookUrl === 'string'
    ? invalid(webhookUrl, inputs)
    : { kind: 'bulk', emails: list, webhookUrl, inputs }
}

function parseCompany(query: URLSearchParams | undefined): SandboxRequest {
  const [domain, name] = [query?.get('domain') ?? undefined, collapseSpaces(query?.get('name') ?? undefined)]
  if (domain !== undefined) {
    const key = canonicalDomain(domain)
    if (key === undefined) return invalid('domain is not a domain', [collapseSpaces(domain)])
    return { kind: 'company', lookup: { kind: 'domain', key }, inputs: [key] }
  }
  if (name === '') return invalid('expected domain or name')
  const key = `company:${name}`.toLowerCase()
  return { kind: 'company', lookup: { kind: 'company', key, name }, inputs: [key] }
}

function parseShortPerson(fields: Fields): SandboxRequest {
  const email = textOf(fields, 'email')
  return email === undefined ? invalid('email is missing') : parsePersonByEmail(email)
}

/** A single lookup may give the URL for its delivery, in case it is answered 202. */
function withWebhook(question: SandboxRequest, text: string | undefined): SandboxRequest {
  if (text === undefined || question.kind !== 'person') return question
  const webhookUrl = parseWebhookUrl(text)
  return typeof webhookUrl === 'string' ? invalid(webhookUrl, question.inputs) : { ...question, webhookUrl }
}

/** Parses a call to an endpoint, or says what is wrong with it. */
export function parseRequest(endpoint: SandboxEndpoint, call: RawRequest): SandboxRequest {
  const method = endpoint.slice(0, endpoint.indexOf(' '))
  if (call.method !== method)
    return problem(400, 'wrong_method', `expected ${endpoint}, found ${call.method}`)
  if (endpoint === 'GET /v1/company/enrich') return parseCompany(call.query)
  const read = parseFields(call, ['email', 'linkedin_url', 'name', 'company', 'webhook_url'])
  if ('found' in read) return read.found
  if (endpoint === 'POST /v1/person/bulk') return parseBulk(read.fields)
  const question = endpoint === 'POST /v1/person' ? parseShortPerson(read.fields) : parsePerson(read.fields)
  return withWebhook(question, textOf(read.fields, 'webhook_url'))
}
