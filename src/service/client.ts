import { firstOf, isObject } from '../domain/json.ts'
import type { JsonObject } from '../domain/json.ts'
import { readCompany, readPerson } from '../domain/record.ts'
import type { Reading } from '../domain/record.ts'
import { verdictOf } from '../domain/verdict.ts'
import { readAcceptance } from './acceptance.ts'
import type { Acceptance } from './acceptance.ts'
import { MalformedAnswerError } from './errors.ts'
import { brokenError, factsOf, isMissingRoute, statusError } from './failure.ts'
import type { ServiceError } from './errors.ts'
import { Line } from './line.ts'
import type { CallOptions, Endpoint, Heard, LineOptions } from './line.ts'
import { bulkBody, companyQuery, emailBody, personBody, readBody } from './wire.ts'
import type { BulkInput, CompanyInput, PersonInput } from './wire.ts'

export type ClientOptions = LineOptions
export type { CallOptions, KeyRefusal } from './line.ts'
export type { BulkInput, CompanyInput, PersonInput } from './wire.ts'

/** What the service answered about one person or company. */
export type Answer =
  /** `record` is the JSON as it came, out of its wrapper; `confidence`, 0 to 1, is null where there is none. */
  | { outcome: 'found'; record: JsonObject; confidence: number | null }
  | { outcome: 'not_found' }
  /** It will be delivered by webhook, as a job of one. */
  | { outcome: 'accepted'; jobId: string | null }

export type BulkAnswer = Acceptance & { raw: unknown }

/**
 * The enrichment service's interface, one method an endpoint. A method makes exactly one request: it never
 * retries, never follows a redirect and never asks again with another key, so that one permit of the rate
 * limit is one call. What is no answer is thrown as a ServiceError, whose `remedy` says what to do; an input
 * that cannot be asked about is a TypeError before anything is sent.
 */
export class EnrichmentClient {
  readonly #line: Line

  constructor(options: ClientOptions) {
    this.#line = new Line(options)
  }

  get keyCount(): number {
    return this.#line.keys.count
  }

  /** A stable name, no secret, of the key in use: the rate limit belongs to it. */
  get keyId(): string {
    return this.#line.keys.current.id
  }

  /** Every key has been refused: further calls fail at once and unsent, until `retryKeys`. */
  get allKeysRefused(): boolean {
    return this.#line.keys.allRefused
  }

  /** How many calls may begin now, as far as the keys go: none while all are refused, one while they are tried again. */
  get openCalls(): number {
    return this.#line.keys.openCalls
  }

  /** Makes refused keys usable again, one call at a time until one is accepted, for a process that lives on after a fault of the service. */
  retryKeys(): void {
    this.#line.keys.forgetRefusals()
  }

  /** E1. A person by email, by profile URL, or by name and company. */
  async enrichPerson(input: PersonInput, options: CallOptions = {}): Promise<Answer> {
    return this.#lookUp('POST /v1/person/enrich', { body: personBody(input) }, readPerson, options)
  }

  /** E2. A person by email, on the short path. */
  async findPerson(email: string, options: CallOptions = {}): Promise<Answer> {
    return this.#lookUp('POST /v1/person', { body: emailBody(email) }, readPerson, options)
  }

  /** E3. A company by domain. */
  async enrichCompany(input: CompanyInput, options: CallOptions = {}): Promise<Answer> {
    return this.#lookUp('GET /v1/company/enrich', { query: companyQuery(input) }, readCompany, options)
  }

  /**
   * E4. Submits 1 to 100 emails; the results go to `webhookUrl`. Once the head of a 202 is in, the job exists,
   * and this resolves even when the body is lost or unreadable, with `jobId` null: thrown away, the job would
   * be sent and paid for again.
   */
  async submitBulk(input: BulkInput, options: CallOptions = {}): Promise<BulkAnswer> {
    const heard = await this.#line.ask('POST /v1/person/bulk', { body: bulkBody(input) }, options)
    const { head, broken, body } = heard.exchanged
    if (head.status === 202) {
      const parsed = broken === null ? readBody(body) : null
      const raw = parsed?.ok === true ? parsed.value : null
      return { ...readAcceptance(raw), raw }
    }
    const value = readSuccess(heard)
    const acceptance = readAcceptance(value)
    // Without the 202 only an identifier shows that a job was accepted.
    if (acceptance.jobId === null) throw malformed('no job identifier', heard)
    return { ...acceptance, raw: value }
  }

  /** Lets the calls under way end, and closes the connections. */
  close(): Promise<void> {
    return this.#line.close()
  }

  async #lookUp(
    endpoint: Endpoint,
    parts: { body?: string; query?: string },
    read: (value: unknown) => Reading,
    options: CallOptions,
  ): Promise<Answer> {
    const heard = await this.#line.ask(endpoint, parts, options)
    const { head, body } = heard.exchanged
    if (head.status === 404 && !isMissingRoute(head.headers, body)) return { outcome: 'not_found' }
    if (head.status === 202) {
      const parsed = readBody(body)
      return { outcome: 'accepted', jobId: readAcceptance(parsed.ok ? parsed.value : null).jobId }
    }
    const value = readSuccess(heard)
    const reading = read(value)
    if (reading.outcome !== 'unreadable') return reading
    const jobId = queuedAs(value)
    if (jobId !== null) return { outcome: 'accepted', jobId }
    throw malformed(reading.reason, heard)
  }
}

/** The JSON of a whole answer of success; throws for every other. */
function readSuccess(heard: Heard): unknown {
  const { head, broken, body } = heard.exchanged
  if (head.status !== 200 && head.status !== 201 && head.status !== 203) {
    throw statusError(heard.exchanged, heard.context)
  }
  if (broken !== null) throw brokenError(broken, heard.exchanged, heard.context)
  const parsed = readBody(body)
  if (parsed.ok) return parsed.value
  const coding = head.headers['content-encoding']
  throw malformed(coding === undefined ? parsed.reason : `encoded, though identity was asked for`, heard)
}

/** The job of a lookup that was put in a queue with a status of 200. */
function queuedAs(value: unknown): string | null {
  if (!isObject(value) || verdictOf(value) !== null) return null
  return readAcceptance({ job_id: firstOf(value, ['job_id', 'jobId']) }).jobId
}

const malformed = (reason: string, { exchanged, context }: Heard): ServiceError =>
  new MalformedAnswerError(`the service answered ${exchanged.head.status} with ${reason}`, {
    ...factsOf(exchanged, context),
    body: exchanged.body,
  })
