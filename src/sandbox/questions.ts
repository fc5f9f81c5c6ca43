import { webhookAddress } from './loopback.ts'
import type { CompanyLookup, PersonLookup } from './records.ts'
import { readDomain, readEmail, readProfileUrl, squash } from './normal.ts'

/** The endpoints of service-interface.md, E1 to E4. */
const endpoints = [
  'POST /v1/person/enrich',
  'POST /v1/person',
  'GET /v1/company/enrich',
  'POST /v1/person/bulk',
] as const
export type Endpoint = (typeof endpoints)[number]

/** Emails in one bulk call (service-interface.md, Limits). */
const bulkLimit = 100

/** A call that cannot be answered: 400 where it cannot be read, 422 where what it asks is not valid. */
interface Problem {
  readonly status: 400 | 422
  readonly code: string
  readonly message: string
}

/** What a call asks. `inputs` are the keys it names, also where it cannot be answered. */
export type Question = { readonly inputs: readonly string[]; readonly webhookUrl?: URL } & (
  | { readonly kind: 'problem'; readonly problem: Problem }
  | { readonly kind: 'person'; readonly lookup: PersonLookup }
  | { readonly kind: 'company'; readonly lookup: CompanyLookup }
  | { readonly kind: 'bulk'; readonly emails: readonly string[]; readonly webhookUrl: URL }
)

export interface RawCall {
  readonly method: string
  readonly contentType: string | undefined
  readonly query: URLSearchParams | undefined
  readonly body: Buffer
}

type Fields = Readonly<Record<string, unknown>>

function problem(status: 400 | 422, code: string, message: string, inputs: readonly string[] = []): Question {
  return { kind: 'problem', problem: { status, code, message }, inputs }
}

const invalid = (message: string, inputs: readonly string[] = []) =>
  problem(422, 'invalid_input', message, inputs)

/** The endpoint that answers at a path, whatever the method. */
export function endpointAt(path: string): Endpoint | undefined {
  return endpoints.find((endpoint) => endpoint.slice(endpoint.indexOf(' ') + 1) === path)
}

/** The fields of a JSON body, or the problem with it. */
function readFields(
  { contentType, body }: RawCall,
  texts: readonly string[],
): { fields: Fields } | { found: Question } {
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

function person(lookup: PersonLookup): Question {
  return { kind: 'person', lookup, inputs: [lookup.key] }
}

function readPersonByEmail(email: string): Question {
  const key = readEmail(email)
  return key === undefined
    ? invalid('email is not an email address', [squash(email)])
    : person({ kind: 'email', key })
}

function readPerson(fields: Fields): Question {
  const [email, url] = [textOf(fields, 'email'), textOf(fields, 'linkedin_url')]
  if (email !== undefined) return readPersonByEmail(email)
  if (url !== undefined) {
    const key = readProfileUrl(url)
    if (key === undefined) return invalid('linkedin_url is not the URL of a profile', [squash(url)])
    return person({ kind: 'linkedin', key, url: `https://${key}` })
  }
  const [name, company] = [squash(textOf(fields, 'name')), squash(textOf(fields, 'company'))]
  const key = `name:${name}|${company}`.toLowerCase()
  if (name === '' && company === '') return invalid('expected email, linkedin_url, or name with company')
  if (name === '' || company === '') return invalid('name and company are needed together', [key])
  return person({ kind: 'name', key, name, company })
}

function readBulk(fields: Fields): Question {
  const { emails } = fields
  if (
    emails !== undefined &&
    !(Array.isArray(emails) && emails.every((email) => typeof email === 'string'))
  ) {
    return problem(400, 'wrong_type', 'emails must be an array of strings')
  }
  const list: readonly string[] = emails ?? []
  const keys = list.map((email) => readEmail(email))
  const inputs = list.map((email, at) => keys[at] ?? squash(email))
  if (list.length === 0) return invalid('emails is missing or empty')
  if (list.length > bulkLimit) {
    return invalid(`emails has ${list.length} entries; at most ${bulkLimit} are allowed`, inputs)
  }
  const wrong = keys.flatMap((key, at) => (key === undefined ? [at] : []))
  if (wrong.length > 0)
    return invalid(`emails at ${wrong.join(', ')} (from 0) are not email addresses`, inputs)
  const text = textOf(fields, 'webhook_url')
  if (text === undefined) return invalid('webhook_url is missing', inputs)
  const webhookUrl = webhookAddress(text)
  return typeof webhookUrl === 'string'
    ? invalid(webhookUrl, inputs)
    : { kind: 'bulk', emails: list, webhookUrl, inputs }
}

function readCompany(query: URLSearchParams | undefined): Question {
  const [domain, name] = [query?.get('domain') ?? undefined, squash(query?.get('name') ?? undefined)]
  if (domain !== undefined) {
    const key = readDomain(domain)
    if (key === undefined) return invalid('domain is not a domain', [squash(domain)])
    return { kind: 'company', lookup: { kind: 'domain', key }, inputs: [key] }
  }
  if (name === '') return invalid('expected domain or name')
  const key = `company:${name}`.toLowerCase()
  return { kind: 'company', lookup: { kind: 'company', key, name }, inputs: [key] }
}

function readShort(fields: Fields): Question {
  const email = textOf(fields, 'email')
  return email === undefined ? invalid('email is missing') : readPersonByEmail(email)
}

/** A single lookup may say where its answer is delivered, should it be answered 202. */
function withWebhook(question: Question, text: string | undefined): Question {
  if (text === undefined || question.kind !== 'person') return question
  const webhookUrl = webhookAddress(text)
  return typeof webhookUrl === 'string' ? invalid(webhookUrl, question.inputs) : { ...question, webhookUrl }
}

/** What a call to an endpoint asks, or what is wrong with it. */
export function readQuestion(endpoint: Endpoint, call: RawCall): Question {
  const method = endpoint.slice(0, endpoint.indexOf(' '))
  if (call.method !== method)
    return problem(400, 'wrong_method', `expected ${endpoint}, found ${call.method}`)
  if (endpoint === 'GET /v1/company/enrich') return readCompany(call.query)
  const read = readFields(call, ['email', 'linkedin_url', 'name', 'company', 'webhook_url'])
  if ('found' in read) return read.found
  if (endpoint === 'POST /v1/person/bulk') return readBulk(read.fields)
  const question = endpoint === 'POST /v1/person' ? readShort(read.fields) : readPerson(read.fields)
  return withWebhook(question, textOf(read.fields, 'webhook_url'))
}
