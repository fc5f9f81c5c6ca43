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
import type { CallOptions, ServiceEndpoint, RawResponse, TransportOptions } from './transport.ts'
import {
  buildBulkBody,
  buildCompanyQuery,
  buildEmailBody,
  buildPersonBody,
  parseResponseBody,
} from './request-bodies.ts'
import type { BulkInput, CompanyInput, PersonInput } from './request-bodies.ts'

export type ClientOptions = TransportOptions
export type { CallOptions, KeyRejection } from './transport.ts'
export type { BulkInput, CompanyInput, PersonInput } from './request-bodies.ts'

/** What the service answered about one person or company. */
export type LookupResponse =
  /** `record` is the JSON as it came, out of its wrapper; `confidence`, 0 to 1, is null where there is none. */
  | { outcome: 'found'; record: JsonObject; confidence: number | null }
  | { outcome: 'not_found' }
  /** It will be delivered by webhook, as a job of one. */
  | { outcome: 'accepted'; jobId: string | null }

export type BulkResponse = BulkAcceptance & { raw: unknown }

/**
 * The enrichment service's interface, one method an endpoint. A method makes exactly one request: it never
 * retries, never follows a redirect and never asks again with another key, so that one permit of the rate
 * limit is one call. What is no answer is thrown as a ServiceError, whose `remedy` says what to do; an input
 * that cannot be asked about is a TypeError before anything is sent.
 */
export class EnrichmentClient {
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options)
  }

  get keyCount(): number {
    return this.#transport.keys.count
  }

  /** A stable name, no secret, of the key in use: the rate limit belongs to it. */
  get keyId(): string {
    return this.#transport.keys.current.id
  }

  /** Every key has been refused: further calls fail at once and unsent, until `retryKeys`. */
  get allKeysRejected(): boolean {
    return this.#transport.keys.allRejected
  }

  /** How many calls may begin now, as far as the keys go: none while all are refused, one while they are tried again. */
  get openCalls(): number {
    return this.#transport.keys.allowedCalls
  }

  /** Makes refused keys usable again, one call at a time until one is accepted, for a process that lives on after a fault of the service. */
  resetKeys(): void {
    this.#transport.keys.reset()
  }

  /** E1. A person by email, by profile URL, or by name and company. */
  async enrichPerson(input: PersonInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('POST /v1/person/enrich', { body: buildPersonBody(input) }, readPerson, options)
  }

  /** E2. A person by email, on the short path. */
  async findPerson(email: string, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('POST /v1/person', { body: buildEmailBody(email) }, readPerson, options)
  }

  /** E3. A company by domain. */
  async enrichCompany(input: CompanyInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('GET /v1/company/enrich', { query: buildCompanyQuery(input) }, readCompany, options)
  }

  /**
   * E4. Submits 1 to 100 emails; the results go to `webhookUrl`. Once the head of a 202 is in, the job exists,
   * and this resolves even when the body is lost or unreadable, with `jobId` null: thrown away, the job would
   * be sent and paid for again.
   */
  async submitBulk(input: BulkInput, options: CallOptions = {}): Promise<BulkResponse> {
    const heard = await this.#transport.send('POST /v1/person/bulk', { body: buildBulkBody(input) }, options)
    const { head, failure: broken, body } = heard.exchange
    if (head.status === 202) {
      const parsed = broken === null ? parseResponseBody(body) : null
      const raw = parsed?.ok === true ? parsed.value : null
      return { ...parseBulkResponse(raw), raw }
    }
    const value = parseSuccessBody(heard)
    const acceptance = parseBulkResponse(value)
    // Without the 202 only an identifier shows that a job was accepted.
    if (acceptance.jobId === null) throw malformedResponseError('no job identifier', heard)
    return { ...acceptance, raw: value }
  }

  /** Lets the calls under way end, and closes the connections. */
  close(): Promise<void> {
    return this.#transport.close()
  }

  async #enrich(
    endpoint: ServiceEndpoint,
    parts: { body?: string; query?: string },
    read: (value: unknown) => RecordReading,
    options: CallOptions,
  ): Promise<LookupResponse> {
    const heard = await this.#transport.send(endpoint, parts, options)
    const { head, body } = heard.exchange
    if (head.status === 404 && !isMissingRoute(head.headers, body)) return { outcome: 'not_found' }
    if (head.status === 202) {
      const parsed = parseResponseBody(body)
      return { outcome: 'accepted', jobId: parseBulkResponse(parsed.ok ? parsed.value : null).jobId }
    }
    const value = parseSuccessBody(heard)
    const reading = read(value)
    if (reading.outcome !== 'unreadable') return reading
    const jobId = asyncJobId(value)
    if (jobId !== null) return { outcome: 'accepted', jobId }
    throw malformedResponseError(reading.reason, heard)
  }
}

/** The JSON of a whole answer of success; throws for every other. */
function parseSuccessBody(heard: RawResponse): unknown {
  const { head, failure: broken, body } = heard.exchange
  if (head.status !== 200 && head.status !== 201 && head.status !== 203) {
    throw statusError(heard.exchange, heard.context)
  }
  if (broken !== null) throw transportError(broken, heard.exchange, heard.context)
  const parsed = parseResponseBody(body)
  if (parsed.ok) return parsed.value
  const coding = head.headers['content-encoding']
  throw malformedResponseError(
    coding === undefined ? parsed.reason : `encoded, though identity was asked for`,
    heard,
  )
}

/** The job of a lookup that was put in a queue with a status of 200. */
function asyncJobId(value: unknown): string | null {
  if (!isObject(value) || readInBandStatus(value) !== null) return null
  return parseBulkResponse({ job_id: firstPresent(value, ['job_id', 'jobId']) }).jobId
}

const malformedResponseError = (reason: string, { exchange, context }: RawResponse): ServiceError =>
  new MalformedResponseError(`the service answered ${exchange.head.status} with ${reason}`, {
    ...errorDetails(exchange, context),
    body: exchange.body,
  })
