import { firstPresent, isObject } from '../domain/json.ts'
import type { JsonObject } from '../domain/json.ts'
import { readCompany, readPerson } from '../domain/record.ts'
import type { RecordReading } from '../domain/record.ts'
import { readInBandStatus } from '../domain/in-band-status.ts'
import { parseBulkResponse } from './bulk-response.ts'
import type { BulkAcceptance } from './bulk-response.ts'
import { MalformedResponseError } from './errors.ts'
import { transportError, errorDetails, isMissingRoute, statusError } from './response-errors.ts'
import type { ServiceError } from './errors.ts'
import { Transport } from './transport.ts'
import type {
  CallOptions,
  RawResponse,
  RequestParts,
  ServiceEndpoint,
  TransportOptions,
} from './transport.ts'
import {
  buildBulkBody,
  buildCompanyQuery,
  buildEmailBody,
  buildPersonBody,
  parseResponseBody,
} from './request-bodies.ts'
import type { BulkInput, CompanyInput, PersonInput } from './request-bodies.ts'

/**
 * Options of an `EnrichmentClient`; only `baseUrl` and `apiKey` are required.
 * @example
 * const options: ClientOptions = { baseUrl: 'https://api.example.com', apiKey: ['new-key', 'old-key'], timeoutMs: 10_000 }
 */
export type ClientOptions = TransportOptions
export type { CallOptions, KeyRejection } from './transport.ts'
export type { BulkInput, CompanyInput, PersonInput } from './request-bodies.ts'

/**
 * The service's response about one person or company.
 * @example
 * if (response.outcome === 'accepted') console.log(`job ${response.jobId} will deliver it`)
 */
export type LookupResponse =
  /** `record` is the JSON as received, without its wrapper; `confidence` is 0 to 1, or null for a company. */
  | { outcome: 'found'; record: JsonObject; confidence: number | null }
  | { outcome: 'not_found' }
  /** Accepted for later (202): the result is delivered by webhook, as a job of one. */
  | { outcome: 'accepted'; jobId: string | null }

/**
 * An accepted bulk job; `raw` is the parsed body, null if it could not be read.
 * @example
 * const { jobId, requestIds, raw } = await client.submitBulk(input)
 */
export type BulkResponse = BulkAcceptance & { raw: unknown }

/**
 * Client of the enrichment service, one method per endpoint. Each method sends exactly one request: no retry, no
 * redirect, no second key, so that one permit of the rate limit is one call. It does not limit the rate itself.
 *
 * @throws ServiceError for anything but a usable response; its `action` says what to do
 * @throws TypeError for invalid input, before anything is sent
 * @example
 * const client = new EnrichmentClient({ baseUrl: 'https://api.example.com', apiKey: process.env.API_KEY! })
 * const response = await client.enrichPerson({ email: 'jane.doe@acme.com' })
 * if (response.outcome === 'found') console.log(response.record, response.confidence)
 * await client.close()
 */
export class EnrichmentClient {
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options)
  }

  get keyCount(): number {
    return this.#transport.keys.count
  }

  /** The fingerprint of the key in use, stable and no secret. The rate limit belongs to the key. */
  get keyId(): string {
    return this.#transport.keys.current.id
  }

  /** Whether every key has been rejected: further calls fail unsent until `resetKeys`. */
  get allKeysRejected(): boolean {
    return this.#transport.keys.allRejected
  }

  /** How many calls the keys allow now: none while all are rejected, one while a rejected key is tried again. */
  get callsAllowedByKeys(): number {
    return this.#transport.keys.allowedCalls
  }

  /** Tries rejected keys again, one call at a time until one is accepted. For long-running processes. */
  resetKeys(): void {
    this.#transport.keys.reset()
  }

  /**
   * E1. Looks up a person by email, by LinkedIn profile URL, or by name and company.
   * @example
   * await client.enrichPerson({ name: 'Jane Doe', company: 'Acme' })
   */
  async enrichPerson(input: PersonInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('POST /v1/person/enrich', { body: buildPersonBody(input) }, readPerson, options)
  }

  /**
   * E2. Looks up a person by email, at the shorter endpoint.
   * @example
   * await client.findPerson('jane.doe@acme.com')
   */
  async findPerson(email: string, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('POST /v1/person', { body: buildEmailBody(email) }, readPerson, options)
  }

  /**
   * E3. Looks up a company by domain.
   * @example
   * await client.enrichCompany({ domain: 'acme.com' })
   */
  async enrichCompany(input: CompanyInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('GET /v1/company/enrich', { query: buildCompanyQuery(input) }, readCompany, options)
  }

  /**
   * E4. Submits 1 to 100 emails; the results are delivered to `webhookUrl`. Once the head of a 202 has arrived the job
   * exists, so this resolves even if the body is lost or unreadable, with `jobId` null. As an error it would be
   * submitted, and billed, again.
   * @example
   * const { jobId } = await client.submitBulk({ emails, webhookUrl: 'https://example.com/webhooks/enrichment/42' })
   */
  async submitBulk(input: BulkInput, options: CallOptions = {}): Promise<BulkResponse> {
    const response = await this.#transport.send(
      'POST /v1/person/bulk',
      { body: buildBulkBody(input) },
      options,
    )
    const { head, failure, body } = response.exchange
    if (head.status === 202) {
      const parsed = failure === null ? parseResponseBody(body) : null
      const raw = parsed?.ok === true ? parsed.value : null
      return { ...parseBulkResponse(raw), raw }
    }
    const value = parseSuccessBody(response)
    const acceptance = parseBulkResponse(value)
    // Without a 202, only an identifier proves that a job was accepted.
    if (acceptance.jobId === null) throw malformedResponseError('no job identifier', response)
    return { ...acceptance, raw: value }
  }

  /** Waits for the calls in flight, then closes the connections. */
  close(): Promise<void> {
    return this.#transport.close()
  }

  async #enrich(
    endpoint: ServiceEndpoint,
    parts: RequestParts,
    read: (value: unknown) => RecordReading,
    options: CallOptions,
  ): Promise<LookupResponse> {
    const response = await this.#transport.send(endpoint, parts, options)
    const { head, body } = response.exchange
    if (head.status === 404 && !isMissingRoute(head.headers, body)) return { outcome: 'not_found' }
    if (head.status === 202) {
      const parsed = parseResponseBody(body)
      return { outcome: 'accepted', jobId: parseBulkResponse(parsed.ok ? parsed.value : null).jobId }
    }
    const value = parseSuccessBody(response)
    const reading = read(value)
    if (reading.outcome !== 'unreadable') return reading
    const jobId = asyncJobId(value)
    if (jobId !== null) return { outcome: 'accepted', jobId }
    throw malformedResponseError(reading.reason, response)
  }
}

/** The JSON of a complete success response; throws for any other. */
function parseSuccessBody(response: RawResponse): unknown {
  const { head, failure, body } = response.exchange
  if (head.status !== 200 && head.status !== 201 && head.status !== 203)
    throw statusError(response.exchange, response.context)
  if (failure !== null) throw transportError(failure, response.exchange, response.context)
  const parsed = parseResponseBody(body)
  if (parsed.ok) return parsed.value
  const encoding = head.headers['content-encoding']
  throw malformedResponseError(
    encoding === undefined ? parsed.reason : 'a content encoding that was not requested',
    response,
  )
}

/** The job of a lookup that was queued with status 200. */
function asyncJobId(value: unknown): string | null {
  if (!isObject(value) || readInBandStatus(value) !== null) return null
  return parseBulkResponse({ job_id: firstPresent(value, ['job_id', 'jobId']) }).jobId
}

const malformedResponseError = (reason: string, { exchange, context }: RawResponse): ServiceError =>
  new MalformedResponseError(`the service answered ${exchange.head.status} with ${reason}`, {
    ...errorDetails(exchange, context),
    body: exchange.body,
  })
