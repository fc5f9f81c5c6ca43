import { readInBandStatus } from '../domain/in-band-status.ts'
import { toJobId } from '../domain/job.ts'
import { isObject } from '../domain/json.ts'
import { parseBulkResponse } from './bulk-response.ts'
import { MalformedResponseError, type ServiceError, UnexpectedStatusError } from './errors.ts'
import { InputsInARow } from './inputs-in-a-row.ts'
import {
  asyncJobId,
  failureError,
  holdsNoResults,
  toMalformedResponse,
  type OwnReading,
  parseSuccessBody,
  readAnsweredResults,
  readJob,
  readOwn,
  toAnswered,
  unlessRefused,
  withMeaning,
} from './read-response.ts'
import { toErrorDetails, isMissingRoute, parseResponseBody } from './response-errors.ts'
import { Transport } from './transport.ts'
import type { CallOptions, RawResponse, TransportOptions } from './transport.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { CompanyInput, PersonInput, ServiceReading } from '../domain/service/adapter.ts'
import { toBulkName, toJobInputs } from '../domain/service/job-inputs.ts'
import {
  type BulkAcceptance,
  type GivenInputs,
  isFailure,
  type JobProgress,
  type ServiceAnswer,
  type ServiceDelivery,
  type ServiceFailure,
} from '../domain/service/messages.ts'
import type { CalledPath, LookupCall, RequestParts, Service } from '../domain/service/service.ts'

/** The service's response about one person or company. */
export type LookupResponse = Exclude<ServiceReading, ServiceFailure>

/** An accepted bulk job; `raw` is the parsed body, null if it could not be read. */
export type BulkResponse = BulkAcceptance & {
  raw: unknown
  /** The results, of a service that sends them in the answer. */
  delivery?: ServiceDelivery
}

/**
 * Client of the enrichment service, one method per endpoint; which endpoints, its `service` says. Each method sends exactly one request: no retry, no
 * redirect, so that one permit of the rate limit is one call. It does not limit the rate itself.
 *
 * @throws ServiceError for anything but a usable response; its `action` says what to do
 */
export class EnrichmentClient {
  readonly #transport: Transport
  readonly #service: Service
  /** Inputs whose answers could not be read. */
  readonly #unread = { person: new InputsInARow(), company: new InputsInARow() }

  /** @param options only `baseUrl` and `apiKey` are required */
  constructor(options: TransportOptions) {
    this.#service = options.service ?? BUILT_IN_SERVICE
    this.#transport = new Transport(options)
  }

  /** The fingerprint of the key, stable and no secret. The rate limit belongs to the key. */
  get keyId(): string {
    return this.#transport.key.id
  }

  /** Whether the key has been rejected: further calls fail unsent until `resetKey`. */
  get isKeyRejected(): boolean {
    return this.#transport.key.isRejected
  }

  /** How many calls the key allows now: none while it is rejected, one while it is tried again. */
  get callsAllowedByKey(): number {
    return this.#transport.key.allowedCalls
  }

  /** Tries a rejected key again, one call at a time until it is accepted. For long-running processes. */
  resetKey(): void {
    this.#transport.key.reset()
  }

  /** Looks up a person by email, by LinkedIn profile URL, or by name and company. */
  enrichPerson(input: PersonInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('person', this.#service.person, input, options)
  }

  /** Looks up a company by domain. */
  enrichCompany(input: CompanyInput, options: CallOptions = {}): Promise<LookupResponse> {
    return this.#enrich('company', this.#service.company, input, options)
  }

  /**
   * Submits a job: 1 to 100 inputs, or the number that the service takes. The results are delivered to
   * `webhookUrl`, are the answer, or are fetched. The job exists once the head of a 202 has arrived, so this
   * resolves even if the body is lost or unreadable, with `jobId` null: after an error it would be submitted, and
   * billed, again.
   */
  async submitBulk(
    request: GivenInputs & { readonly webhookUrl: string | null },
    options: CallOptions = {},
  ): Promise<BulkResponse> {
    const { webhookUrl } = request
    const job = toJobInputs(request)
    const name = toBulkName(job)
    const bulk = this.#require(name)
    const { read, results } = bulk
    const { response, own } = await this.#send(
      // An address in the body of a job whose results come otherwise would bring them twice.
      bulk,
      bulk.build({ ...job, webhookUrl: results === 'webhook' ? webhookUrl : null }),
      options,
      read && unlessRefused((answer) => read(answer, job)),
    )
    const { head, failure, body } = response.exchange
    const parsed = own !== null || head.status === 202 ? parseResponseBody(body) : null
    const raw = parsed?.ok === true ? parsed.value : null
    if (own?.outcome === 'results')
      return { jobId: toJobId(own.delivery.jobId), requestIds: null, raw, delivery: toAnswered(own.delivery) }
    const acceptance =
      own?.outcome === 'accepted'
        ? { jobId: toJobId(own.jobId), requestIds: own.requestIds ?? null }
        : head.status === 202
          ? parseBulkResponse(raw)
          : null
    if (acceptance !== null) return this.#toAcceptance(acceptance, raw, response)
    // Every further answer would be lost in the same way, and its inputs paid again.
    if (results === 'answer' && failure?.kind === 'too_large')
      throw new UnexpectedStatusError(
        `the answer to ${job.inputs.length} inputs is larger than 16 MiB: lower \`${name}.size\` of the service`,
        { ...toErrorDetails(response.exchange, response.context), action: 'abort_run' },
      )
    const value = parseSuccessBody(response)
    if (results === 'answer') {
      // Whether it is billed is not known: the job is in doubt, and not counted as paid.
      if (holdsNoResults(value)) throw toMalformedResponse('no results', response)
      return {
        jobId: null,
        requestIds: null,
        raw: value,
        delivery: toAnswered(readAnsweredResults(value)),
      }
    }
    return this.#toAcceptance(parseBulkResponse(value), value, response)
  }

  /** Without a 202, only an identifier proves that a job was accepted. */
  #toAcceptance(acceptance: BulkAcceptance, raw: unknown, response: RawResponse): BulkResponse {
    if (acceptance.jobId === null && response.exchange.head.status !== 202)
      throw toMalformedResponse('no job identifier', response)
    return { ...acceptance, raw }
  }

  /**
   * Fetches a job whose results have not been delivered, or the page of them at `cursor`.
   * @throws TypeError if the service does not describe how
   */
  async fetchJob(
    given: GivenInputs & { readonly jobId: string; readonly cursor?: string | null },
    options: CallOptions = {},
  ): Promise<JobProgress> {
    const poll = this.#require('poll')
    const { build, read } = poll
    const { jobId, cursor = null } = given
    const job = { jobId, cursor, ...toJobInputs(given) }
    const { response, own } = await this.#send(
      poll,
      build(job.jobId, cursor),
      options,
      read && unlessRefused((answer) => read(answer, job)),
    )
    return own ?? readJob(this.#service.readDelivery, response, job)
  }

  /**
   * Requests the account, which is free.
   * @returns the credits that are left; null: they are not known
   * @throws ServiceError if the key is not accepted; TypeError if the service does not describe how
   */
  async readAccount(options: CallOptions = {}): Promise<number | null> {
    const account = this.#service.account
    if (account === null) throw this.#missing('account')
    const body = parseSuccessBody(await this.#transport.send(account, {}, options))
    try {
      const credits = account.credits?.(body) ?? Number.NaN
      return Number.isFinite(credits) ? credits : null
    } catch {
      // The key was accepted all the same.
      return null
    }
  }

  /** Waits for the calls in flight, then closes the connections. */
  close(): Promise<void> {
    return this.#transport.close()
  }

  /** @throws TypeError: the service has no such endpoint */
  #require<Name extends 'bulk' | 'companyBulk' | 'poll'>(name: Name): NonNullable<Service[Name]> {
    const found = this.#service[name]
    if (found === null) throw this.#missing(name)
    return found as NonNullable<Service[Name]>
  }

  #missing(name: string): TypeError {
    return new TypeError(`the service ${this.#service.name} has no endpoint \`${name}\``)
  }

  async #enrich<Input>(
    name: string,
    call: LookupCall<Input> | null,
    input: Input,
    options: CallOptions,
  ): Promise<LookupResponse> {
    if (call === null) throw this.#missing(name)
    const { build, read, kind } = call
    const parts = build(input)
    try {
      const { response, own } = await this.#send(call, parts, options, read)
      const answer = own ?? this.#readLookup(call, response)
      // That a status says that there is no match shows nothing of how records are read.
      if (answer.outcome !== 'accepted' && response.exchange.head.status < 300) this.#unread[kind].answer()
      return answer
    } catch (error) {
      throw error instanceof MalformedResponseError
        ? this.#judgeUnread(error, kind, JSON.stringify(parts))
        : error
    }
  }

  /** Whether it is the description's fault: the service answers with objects and says no error, and none was read. They are paid for. */
  #judgeUnread(error: MalformedResponseError, kind: 'person' | 'company', input: string): ServiceError {
    const row = this.#unread[kind]
    const parsed = parseResponseBody(error.body)
    if (row.hasAnswered || !parsed.ok || !isObject(parsed.value) || readInBandStatus(parsed.value) !== null)
      return error
    row.add(input)
    if (!row.isProof) return error
    return error.asProof(
      `no answer to other inputs could be read either, so no more are paid for. Correct \`${kind}\` in the description of the service: \`fillrate explain\` shows of each row what was answered`,
    )
  }

  /**
   * Sends a request, and reads its response with the service's own reader: what it says of the key, the limit or an outage
   * counts as if the status said so. `own` is null where the reader leaves the response to the usual way.
   * @throws ServiceError for a reading that is no answer
   */
  async #send<Reading extends OwnReading>(
    called: CalledPath,
    parts: RequestParts,
    options: CallOptions,
    read: ((answer: ServiceAnswer) => Reading | undefined) | null,
  ): Promise<{ response: RawResponse; own: Exclude<Reading, ServiceFailure> | null }> {
    const reading: { own: Reading | ServiceFailure | null } = { own: null }
    const response = await this.#transport.send(
      called,
      parts,
      options,
      read &&
        ((answered) => {
          reading.own = readOwn(read, called.kind, answered)
          return withMeaning(answered.head, reading.own)
        }),
    )
    const { own } = reading
    if (own !== null && isFailure(own)) throw failureError(own, response)
    return { response, own: own as Exclude<Reading, ServiceFailure> | null }
  }

  /** @throws ServiceError for an answer that is none */
  #readLookup<Input>({ readRecord }: LookupCall<Input>, response: RawResponse): LookupResponse {
    const { head, body } = response.exchange
    if (head.status === 404 && !isMissingRoute(head.headers, body)) return { outcome: 'not_found' }
    if (head.status === 202) {
      const parsed = parseResponseBody(body)
      return { outcome: 'accepted', jobId: parseBulkResponse(parsed.ok ? parsed.value : null).jobId }
    }
    const value = parseSuccessBody(response)
    const reading = readRecord(value)
    if (reading.outcome !== 'unreadable') return reading
    const jobId = asyncJobId(value)
    if (jobId !== null) return { outcome: 'accepted', jobId }
    throw toMalformedResponse(reading.reason, response)
  }
}
