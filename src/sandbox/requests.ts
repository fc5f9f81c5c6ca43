import { domainToASCII } from 'node:url'
import { z } from 'zod'
import type { CompanyLookup, PersonLookup } from './people.ts'
import { ENDPOINTS, type SandboxEndpoint } from './options.ts'

/** Emails in one bulk call at most. */
const MAX_BULK_EMAILS = 100

/** Why a call is rejected: with 400 if it cannot be parsed, with 422 if its input is invalid. */
class RequestProblem extends Error {
  readonly status: 400 | 422

  constructor(status: 400 | 422, message: string) {
    super(message)
    this.status = status
  }
}

/** A parsed call. `inputs` are the keys that it names. */
export type SandboxRequest = { readonly inputs: readonly string[] } & (
  | { readonly kind: 'problem'; readonly status: 400 | 422; readonly message: string }
  | {
      readonly kind: 'single'
      readonly lookup: PersonLookup | CompanyLookup
      readonly webhookUrl: URL | null
    }
  | { readonly kind: 'bulk'; readonly emails: readonly string[]; readonly webhookUrl: URL }
)

/** The endpoint of a method and a path. */
export function findEndpoint(method: string, path: string): SandboxEndpoint | undefined {
  return ENDPOINTS.find((endpoint) => endpoint === `${method} ${path}`)
}

/** Parses a call to an endpoint, or says what is wrong with it. */
export function parseRequest(
  endpoint: SandboxEndpoint,
  query: URLSearchParams,
  body: string,
): SandboxRequest {
  try {
    if (endpoint === 'GET /v1/company/enrich') {
      const key = parseInput('domain', query.get('domain') ?? '', canonicalDomain)
      return { kind: 'single', lookup: { kind: 'domain', key }, inputs: [key], webhookUrl: null }
    }
    if (endpoint === 'POST /v1/person/bulk') return parseBulk(parseFields(bulkSchema, body))
    const fields = parseFields(personSchema, body)
    if (endpoint === 'POST /v1/person') parseInput('email', fields.email ?? '', canonicalEmail)
    const lookup = parsePerson(fields)
    // In case it is answered 202.
    const webhookUrl = fields.webhook_url === undefined ? null : parseWebhookUrl(fields.webhook_url)
    return { kind: 'single', lookup, inputs: [lookup.key], webhookUrl }
  } catch (error) {
    if (!(error instanceof RequestProblem)) throw error
    return { kind: 'problem', status: error.status, message: error.message, inputs: [] }
  }
}

const text = z.string().optional()
const personSchema = z.object({
  email: text,
  linkedin_url: text,
  name: text,
  company: text,
  webhook_url: text,
})
const bulkSchema = z.object({ emails: z.array(z.string()), webhook_url: z.string() })

/** The fields of a JSON body. */
function parseFields<T>(schema: z.ZodType<T>, body: string): T {
  let parsed: unknown
  try {
    parsed = JSON.parse(body)
  } catch {
    throw new RequestProblem(400, 'the body is not JSON')
  }
  const { data, error } = schema.safeParse(parsed)
  if (error !== undefined) throw new RequestProblem(400, z.prettifyError(error))
  return data as T
}

function parsePerson({ email, linkedin_url: url, ...fields }: z.output<typeof personSchema>): PersonLookup {
  if (email !== undefined) return { kind: 'email', key: parseInput('email', email, canonicalEmail) }
  if (url !== undefined) {
    const key = parseInput('linkedin_url', url, canonicalProfileUrl)
    return { kind: 'linkedin', key, url: `https://${key}` }
  }
  const [name, company] = [collapseSpaces(fields.name), collapseSpaces(fields.company)]
  if (name === '' || company === '')
    throw new RequestProblem(422, 'expected email, linkedin_url, or name with company')
  return { kind: 'name', key: `name:${name}|${company}`.toLowerCase(), name, company }
}

function parseBulk({ emails, webhook_url: url }: z.output<typeof bulkSchema>): SandboxRequest {
  if (emails.length === 0 || emails.length > MAX_BULK_EMAILS)
    throw new RequestProblem(422, `emails has ${emails.length} entries; 1 to ${MAX_BULK_EMAILS} are allowed`)
  const inputs = emails.map((email, at) => parseInput(`emails[${at}]`, email, canonicalEmail))
  return { kind: 'bulk', emails, webhookUrl: parseWebhookUrl(url), inputs }
}

// Canonical forms of inputs: equal for all spellings of one input, and undefined for what the service answers with 422.

function parseInput(
  field: string,
  written: string,
  canonical: (written: string) => string | undefined,
): string {
  const key = canonical(written)
  if (key === undefined) throw new RequestProblem(422, `${field} is missing or invalid`)
  return key
}

/** Trims and collapses white space. */
const collapseSpaces = (written = ''): string => written.trim().replaceAll(/\s+/g, ' ')

/** Two labels or more. The last label of an IP address is a number; that of a domain never is. */
const HOST = /^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)+(?!\d+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$/

function canonicalHost(written: string): string | undefined {
  const lower = written.toLowerCase()
  // Most hosts are plain ASCII, and the conversion is the slowest part of parsing a call.
  const host = /^[a-z0-9.-]+$/.test(lower) ? lower : domainToASCII(lower)
  return HOST.test(host) ? host : undefined
}

/** One bare email address; case and surrounding white space are ignored. */
export function canonicalEmail(written: string): string | undefined {
  const [, local, domain = ''] = /^([^\s@<>()[\],;:"\\]+)@([^@]+)$/.exec(written.trim().toLowerCase()) ?? []
  const host = canonicalHost(domain)
  return local === undefined || host === undefined ? undefined : `${local}@${host}`
}

/** Host and path of an http(s) URL that has both. */
function canonicalProfileUrl(written: string): string | undefined {
  const url = URL.parse(written.trim())
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  // A country host (`no.linkedin.com`) shows the same profile.
  const host = canonicalHost(url.hostname)?.replace(/^(www\.|.+\.(?=linkedin\.com$))/, '')
  const path = url.pathname.replace(/\/+$/, '')
  return host === undefined || path === '' ? undefined : `${host}${path}`.toLowerCase()
}

/** A bare domain, with or without `www.`. */
function canonicalDomain(written: string): string | undefined {
  return canonicalHost(written.trim())?.replace(/^www\.(?=.+\.)/, '')
}

/**
 * The webhook URL. Only this machine is a target: a sandbox that posted to any URL could be used to reach other hosts.
 */
function parseWebhookUrl(written: string): URL {
  const url = URL.parse(written)
  if (url?.protocol === 'http:' && /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(url.hostname)) return url
  throw new RequestProblem(
    422,
    `webhook_url is ${written}; the sandbox delivers over http: and to this machine only (127.0.0.1, [::1], localhost)`,
  )
}
