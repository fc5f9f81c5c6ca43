import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ConfigProblems } from '../config/problems.ts'
import { parseService } from '../config/service-schema.ts'
import type { CompanyInput, PersonInput, ServiceDefinition } from '../domain/service/adapter.ts'
import { isOAuth } from '../domain/service/auth.ts'
import { kindOfInput, toJobInputs, toBulkName } from '../domain/service/job-inputs.ts'
import type { BulkAcceptance, GivenInputs, JobInputs, OUTCOMES } from '../domain/service/messages.ts'
import type { Service } from '../domain/service/service.ts'
import { type CalledEndpoint, roundCredits } from '../domain/spend.ts'
import { EnrichmentClient, type LookupResponse } from '../service/client.ts'
import {
  MalformedResponseError,
  OutOfCreditsError,
  RateLimitedError,
  ServiceError,
  UnauthorizedError,
} from '../service/errors.ts'
import {
  normalizeDelivery,
  parseEvent,
  readOwnDelivery,
  writeDelivery,
  parseResult,
} from '../webhook/event.ts'
import { signWebhook, verifyWebhook } from '../webhook/signature.ts'
import { isDeepStrictEqual } from 'node:util'

/** What a call came to, in the words that a run uses. */
export type CaseOutcome = (typeof OUTCOMES)[CalledEndpoint][number]

/**
 * A request, what the service answers, and what that means. Objects are compared by the fields that are given.
 * @example
 * const cases: ServiceCase[] = [
 *   {
 *     name: 'a match',
 *     input: { email: 'ada@example.com' },
 *     request: { method: 'POST', path: '/v2/people/find', body: { email: 'ada@example.com' } },
 *     answer: { status: 200, body: { score: 90, job_title: 'Analyst' } },
 *     expect: { outcome: 'found', record: { job_title: 'Analyst' }, confidence: 0.9, credits: 1 },
 *   },
 * ]
 */
export interface ServiceCase {
  readonly name: string
  /** `emails` or `inputs`: a bulk job. `jobId`: a job is fetched, which was submitted with `inputs`; `cursor`: of a further page of its results. */
  readonly input:
    | PersonInput
    | CompanyInput
    | GivenInputs
    | { readonly jobId: string; readonly inputs?: GivenInputs; readonly cursor?: string }
  readonly request?: Partial<SentRequest>
  readonly answer: CannedAnswer
  readonly expect: {
    readonly outcome: CaseOutcome
    readonly record?: Readonly<Record<string, unknown>>
    readonly confidence?: number | null
    /** Of a lookup, or of a whole job if the service says it. */
    readonly credits?: number
    /** Of the page that is fetched next. */
    readonly cursor?: string
    readonly jobId?: string | null
    readonly requestIds?: BulkAcceptance['requestIds']
    /** Of a bulk job whose results are in the answer, or fetched. */
    readonly results?: readonly ExpectedResult[]
  }
}

/** A delivery, and its meaning. `secret` signs it, unless `headers` have a signature. */
export interface DeliveryCase {
  readonly name: string
  readonly delivery: { readonly body: unknown; readonly headers?: Readonly<Record<string, string>> }
  readonly secret?: string
  /** Those of its job. Default: the job is not known. */
  readonly inputs?: GivenInputs
  readonly expect:
    | { readonly signature: 'invalid' }
    | {
        readonly jobId?: string | null
        readonly status?: string | null
        readonly credits?: number
        readonly results?: readonly ExpectedResult[]
      }
}

interface ExpectedResult {
  readonly requestId?: string | null
  readonly index?: number | null
  readonly outcome: 'found' | 'not_found' | 'unreadable'
  readonly email?: string | null
  readonly record?: Readonly<Record<string, unknown>>
  readonly confidence?: number | null
  /** What the service says that it cost. */
  readonly credits?: number
}

/** A key for requests that go no further than this machine. */
const PLACEHOLDER_KEY = 'test-key'

/**
 * Checks a service against cases, one after another: requests and canned answers, or deliveries. Everything runs as in a run, over
 * HTTP on this machine: the client, the reading of the answer, the signature.
 * @throws ConfigProblems for a service with mistakes
 * @throws Error that lists every case that came out differently
 * @example
 * test('Acme Data', () => testService(service, cases))
 */
export async function testService(
  definition: ServiceDefinition,
  cases: readonly (ServiceCase | DeliveryCase)[],
): Promise<void> {
  const { service, problems } = parseService({ definition, place: 'the service' })
  if (service === null) throw new ConfigProblems('the service', problems)
  const wrong: string[] = []
  for (const serviceCase of cases) {
    const mismatches =
      'delivery' in serviceCase ? tryDelivery(service, serviceCase) : await tryLookup(service, serviceCase)
    if (mismatches.length > 0) wrong.push([`${serviceCase.name}:`, ...mismatches].join('\n  '))
  }
  if (wrong.length === 0) return
  throw new Error(
    `${wrong.length} of ${cases.length} cases of ${definition.name} came out differently\n${wrong.join('\n')}`,
  )
}

/** How a request and its meaning differ from what a case expects. */
async function tryLookup(
  service: Service,
  { input, request: expected = {}, answer, expect }: ServiceCase,
): Promise<string[]> {
  let sent: SentRequest | null = null
  const server = createServer((request, response) => {
    void readRequest(request).then((read) => {
      sent = read
      writeCaseAnswer(response, answer)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new EnrichmentClient({
    baseUrl: `http://127.0.0.1:${port}`,
    apiKey: PLACEHOLDER_KEY,
    // Cases are about the service's own requests: they have a token.
    service: isOAuth(service.auth) ? { ...service, auth: 'bearer' } : service,
  })
  try {
    const understood = await understand(service, client, input)
    const request = sent as SentRequest | null
    return [
      ...(request === null ? ['nothing was sent'] : findDifferences('request', request, expected)),
      ...findDifferences('', understood, expect),
    ]
  } finally {
    await client.close()
    server.close()
  }
}

/** The result of a lookup, and its cost. */
export async function understand(
  service: Service,
  client: EnrichmentClient,
  input: ServiceCase['input'],
): Promise<Readonly<Record<string, unknown>>> {
  try {
    if ('jobId' in input) {
      const { jobId, cursor = null } = input
      const inputs = toJobInputs(input.inputs ?? { emails: [] })
      const reading = await client.fetchJob({ jobId, cursor, ...inputs })
      if (reading.outcome !== 'results' && reading.outcome !== 'more') return reading
      const { delivery, ...rest } = reading
      return {
        ...rest,
        status: delivery.status,
        ...readResults(service, writeDelivery(delivery, 'job'), input.inputs ? inputs : null),
      }
    }
    if (isJob(input)) {
      const webhookUrl = 'https://fillrate.example/webhooks/enrichment/1'
      const { jobId, requestIds, delivery } = await client.submitBulk({ ...input, webhookUrl })
      return {
        outcome: 'accepted',
        jobId,
        requestIds,
        ...(delivery && readResults(service, writeDelivery(delivery, 'answer'), toJobInputs(input))),
      }
    }
    const response = await ('domain' in input ? client.enrichCompany(input) : client.enrichPerson(input))
    return { ...response, ...creditsOfResponse(service, input, response) }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { outcome: outcomeOf(error), reason: error.message, status: error.status }
  }
}

function creditsOfResponse(
  { credits }: Service,
  input: PersonInput | CompanyInput,
  response: LookupResponse,
): { credits?: number } {
  if (response.outcome === 'accepted') return {}
  const { credits: stated } = response
  if (typeof stated === 'number') return { credits: roundCredits(stated) }
  return { credits: credits.of(kindOfInput(input), response.outcome === 'found' ? response.record : null) }
}

/** Whether the input of a case is that of a bulk job. */
const isJob = (input: ServiceCase['input']): input is GivenInputs =>
  !('jobId' in input) && ('emails' in input || 'inputs' in input)

function outcomeOf(error: ServiceError): CaseOutcome {
  if (error instanceof RateLimitedError) return 'rate_limited'
  if (error instanceof UnauthorizedError) return 'unauthorized'
  if (error instanceof OutOfCreditsError) return 'out_of_credits'
  if (error instanceof MalformedResponseError) return 'unreadable'
  return error.action === 'reject' ? 'rejected' : 'transient'
}

/** How the meaning of a delivery differs from what a case expects. */
function tryDelivery(
  service: Service,
  { delivery, secret = PLACEHOLDER_KEY, inputs, expect }: DeliveryCase,
): string[] {
  const bytes = Buffer.from(typeof delivery.body === 'string' ? delivery.body : JSON.stringify(delivery.body))
  const headers = Object.fromEntries(
    Object.entries(delivery.headers ?? {}).map(([header, value]) => [header.toLowerCase(), value]),
  )
  const understood = isSigned(service, bytes, headers, secret)
    ? readDelivery(service, bytes, inputs === undefined ? null : toJobInputs(inputs))
    : { signature: 'invalid' }
  return findDifferences('', understood, expect)
}

/** Whether a delivery has a right signature: its own one, or one that is made here. Always, for a service that signs nothing. */
function isSigned(
  { signature }: Service,
  bytes: Buffer,
  headers: Readonly<Record<string, string>>,
  secret: string,
): boolean {
  if (signature === 'none') return true
  const signed = headers[signature.header] ?? signWebhook(bytes, secret, signature)
  return verifyWebhook(bytes, signed, [secret], signature)
}

function readDelivery(
  service: Service,
  bytes: Buffer,
  job: JobInputs | null,
): Readonly<Record<string, unknown>> {
  const body = normalizeDelivery(bytes, readOwnDelivery(bytes, service.readDelivery, job))
  const parsed = parseEvent(body)
  if (!parsed.ok) return { unreadable: parsed.reason }
  const { jobId, status } = parsed.event
  return { jobId, status, ...readResults(service, body, job) }
}

/** The results of a delivery, and what their job cost if the service says it. */
function readResults(
  service: Service,
  body: Buffer,
  job: JobInputs | null,
): { readonly results: readonly unknown[]; readonly credits?: number } {
  const parsed = parseEvent(body)
  if (!parsed.ok) return { results: [] }
  const isCompany = job === null ? service.person === null : toBulkName(job) === 'companyBulk'
  const kind = isCompany ? 'company' : 'person'
  const results = parsed.event.results.map(({ requestId, index, data, raw, credits }) => {
    const read = parseResult(isCompany ? (data ?? raw) : data, kind, service)
    const isPlace = index === null || job === null || index in job.inputs
    const fault = isPlace ? read.fault : `${index} is no index of its ${job.inputs.length} inputs, from 0`
    const outcome = fault !== null ? 'unreadable' : read.found ? 'found' : 'not_found'
    const { record, confidence, email } = read
    return {
      requestId,
      index,
      outcome,
      record,
      confidence,
      email,
      ...(fault !== null && { fault }),
      ...(typeof credits === 'number' && { credits }),
    }
  })
  const { credits } = parsed.event
  return { results, ...(typeof credits === 'number' && { credits }) }
}

/** How a value differs from the expected one, in the fields that are given. */
function findDifferences(place: string, value: unknown, expected: unknown): string[] {
  if (typeof expected === 'object' && expected !== null) {
    if (Array.isArray(expected)) {
      if (!Array.isArray(value) || value.length !== expected.length)
        return [`${place}: ${JSON.stringify(value)}, expected ${expected.length} items`]
      return expected.flatMap((item, index) => findDifferences(`${place}[${index}]`, value[index], item))
    }
    if (typeof value !== 'object' || value === null)
      return [`${place || 'the result'}: ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`]
    return Object.entries(expected).flatMap(([key, inner]) =>
      findDifferences(place === '' ? key : `${place}.${key}`, (value as Record<string, unknown>)[key], inner),
    )
  }
  return isDeepStrictEqual(value, expected)
    ? []
    : [`${place}: ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`]
}

/** A request as the service receives it. Header names are in lower case. */
export interface SentRequest {
  readonly method: string
  /** Without its query. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Parsed, if it is JSON or a form: a repeated field is a list. */
  readonly body: unknown
}

/** What a service answers. */
export interface CannedAnswer {
  /** Default: 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; a text is sent as it is. */
  readonly body?: unknown
}

/** Reads a request to a server that answers in the service's place. */
export async function readRequest(request: IncomingMessage): Promise<SentRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString('utf8')
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  return {
    method: request.method ?? '',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: request.headers,
    body: parseSentBody(text, request.headers['content-type'] === 'application/x-www-form-urlencoded'),
  }
}

/** A body as a case has it: of a form each field, which is a list if it is repeated. */
function parseSentBody(text: string, isForm: boolean): unknown {
  if (isForm) {
    const fields = new URLSearchParams(text)
    return Object.fromEntries(
      [...new Set(fields.keys())].map((name) => {
        const values = fields.getAll(name)
        return [name, values.length === 1 ? values[0] : values]
      }),
    )
  }
  try {
    return text === '' ? text : JSON.parse(text)
  } catch {
    // Compared as text.
    return text
  }
}

/** Answers as a case says. */
export function writeCaseAnswer(
  response: {
    writeHead(status: number, headers: Record<string, string>): unknown
    end(body: string): unknown
  },
  answer: CannedAnswer,
): void {
  const { status = 200, headers = {}, body } = answer
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body ?? null))
}
