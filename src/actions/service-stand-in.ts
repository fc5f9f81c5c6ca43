import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { isOAuth } from '../domain/service/auth.ts'
import { toBulkName, toJobInputs } from '../domain/service/job-inputs.ts'
import type { JobInput } from '../domain/service/messages.ts'
import { type BulkCall, listBulkCalls, type PollCall, type Service } from '../domain/service/service.ts'
import { parseBulkResponse } from '../service/bulk-response.ts'
import {
  type CannedAnswer,
  parseSentBody,
  readRequest,
  type SentRequest,
  writeCaseAnswer,
} from './case-messages.ts'
import { findEmails, fitAnswer, mentionsJob, renameJob } from './fit-answer.ts'
import { type AlignedJobs, alignJobs } from './job-template.ts'
import { type DeliveryCase, isJob, type ServiceCase } from './service-cases.ts'

/** A stand-in of a service: it answers the requests of the cases, and says of others that it has no case. */
interface ServiceStandIn {
  readonly url: string
  readonly cases: number
  close(): Promise<void>
}

type PlayedCase = ServiceCase & {
  readonly sent: Pick<SentRequest, 'method' | 'path' | 'query' | 'body'> | null
}

/**
 * Plays a service from its cases, so that it can be tried without a key. A request that no case makes gets the answer
 * of a case without a match at the same path, or of one that is answered with a job, or a 404. A bulk call of any inputs
 * gets the answer of a case, adapted to these inputs; too many for the service are refused. The polls of each job get
 * the answers of the cases about its identifier, one after another. Rejects if the port is in use.
 */
export async function openServiceStandIn(
  service: Service,
  cases: readonly (ServiceCase | DeliveryCase)[],
  { host, port }: { readonly host: string; readonly port: number },
): Promise<ServiceStandIn> {
  const played = cases.flatMap((one): PlayedCase[] =>
    'delivery' in one ? [] : [{ ...one, sent: buildRequest(service, one.input) }],
  )
  const bulkCalls = listBulkCalls(service)
  const jobs = new PlayedJobs(service, played)
  const { auth } = service
  const choose = (request: SentRequest): CannedAnswer => {
    if (isOAuth(auth) && request.path === auth.oauth.tokenUrl.split('?')[0]) return TOKEN_ANSWER
    const polled = jobs.poll(request)
    if (polled !== null) return polled
    const exact = played.find(({ sent }) => sent !== null && isSame(sent, request))
    if (exact !== undefined) return jobs.accept(exact, namesOf(exact.input))
    const bulk = bulkCalls.find(({ endpoint }) => endpoint.split(' ')[1] === request.path)
    if (bulk !== undefined) return jobs.submit(bulk, request)
    const findOther = (outcome: PlayedCase['expect']['outcome']): PlayedCase | undefined =>
      played.find(({ sent, expect }) => sent?.path === request.path && expect.outcome === outcome)
    const accepted = findOther('accepted')
    return (
      findOther('not_found')?.answer ??
      (accepted &&
        jobs.accept(
          accepted,
          namesOf(accepted.input),
          findEmails([request.body, request.query]).map(toList),
        )) ??
      NO_CASE
    )
  }
  const server = createServer((request, response) => {
    void readRequest(request).then((read) => writeCaseAnswer(response, choose(read)))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    cases: played.length,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Every client gets a token. */
const TOKEN_ANSWER: CannedAnswer = {
  body: { access_token: 'token-of-the-stand-in', token_type: 'bearer', expires_in: 3600 },
}

const NO_CASE: CannedAnswer = { status: 404, body: { error: 'no case makes this request' } }

interface PlayedJob {
  /** The identifier that the cases have. */
  readonly of: string
  /** What names each input of the case that was answered with the job, and of the job. */
  readonly from: AlignedJobs['from']
  readonly to: AlignedJobs['to']
  readonly places: AlignedJobs['places']
  /** By cursor. */
  readonly polls: Map<string | null, number>
}

/** The calls that a stand-in has answered with a job. */
class PlayedJobs {
  readonly #service: Service
  readonly #cases: readonly PlayedCase[]
  readonly #jobs = new Map<string, PlayedJob>()
  /** The identifiers in cases about jobs. */
  readonly #ids: ReadonlySet<string>

  constructor(service: Service, cases: readonly PlayedCase[]) {
    this.#service = service
    this.#cases = cases
    this.#ids = new Set(cases.flatMap(({ input }) => ('jobId' in input ? [input.jobId] : [])))
    // As the cases have them, they can be polled without a submission.
    for (const id of this.#ids) this.#jobs.set(id, { of: id, from: [], to: [], places: [], polls: new Map() })
  }

  submit(bulk: BulkCall, request: SentRequest): CannedAnswer {
    const cases = this.#cases.flatMap((played) => {
      const { input } = played
      const inputs = isJob(input) ? toJobInputs(input).inputs : []
      const isOfBulk = this.#service[toBulkName({ inputs })] === bulk
      const job = inputs.length > 0 && isOfBulk ? align(bulk, inputs, request) : null
      return job === null ? [] : [{ played, job }]
    })
    const count = cases[0]?.job.to.length ?? 0
    if (count > bulk.size)
      return { status: 422, body: { error: `${count} inputs, where a call takes ${bulk.size}` } }
    const found =
      cases.find(({ job }) => isDeepStrictEqual(job.from, job.to)) ??
      cases.find(({ played }) => played.expect.outcome === 'accepted')
    return found === undefined
      ? NO_CASE
      : this.accept(found.played, found.job.from, found.job.to, found.job.places)
  }

  /**
   * The answer of a case for other inputs. A job in it becomes a new one, with identifiers of its own.
   * @param to what names the other inputs. Default: they are those of the case
   * @param places for each of them the input of the case that it is like
   */
  accept(
    played: PlayedCase,
    from: AlignedJobs['from'],
    to = from,
    places: AlignedJobs['places'] = to.map((_, n) => n % from.length),
  ): CannedAnswer {
    const { answer, input, expect } = played
    const of =
      expect.outcome === 'accepted' &&
      (expect.jobId ?? [...this.#ids].find((id) => mentionsJob(answer.body, id)))
    if (typeof of !== 'string') return { ...answer, body: fitAnswer(answer.body, from, to, places) }
    const id = this.#createId(of)
    const requestIds = isJob(input) ? this.#readRequestIds(answer, toJobInputs(input).inputs) : []
    const job = {
      of,
      from: from.map((names, n) => [...names, ...(requestIds[n] ?? [])]),
      to: to.map((names, n) => [
        ...names,
        ...(requestIds[places[n] ?? 0] ?? []).map((one) => `${one}-${id}-${n + 1}`),
      ]),
      places,
      polls: new Map<string | null, number>(),
    }
    this.#jobs.set(id, job)
    return { ...answer, body: renameJob(fitAnswer(answer.body, job.from, job.to, places), of, id) }
  }

  /** The answer of the first case about the job, then of the second, and so on. Null: the request is no poll of a job. */
  poll(request: SentRequest): CannedAnswer | null {
    const { poll } = this.#service
    if (poll === null) return null
    for (const [id, job] of this.#jobs) {
      const ofJob = this.#cases.filter(({ input }) => 'jobId' in input && input.jobId === job.of)
      const cursors = [
        ...new Set(ofJob.flatMap(({ input }) => ('jobId' in input && input.cursor) || [])),
        null,
      ]
      const cursor = cursors.find((one) =>
        isSame(toSent({ ...poll, build: (jobId: string) => poll.build(jobId, one) }, id), request),
      )
      if (cursor === undefined) continue
      // Each page has its own cases. The results begin where there is no cursor.
      const played = ofJob.filter(({ input }) => 'jobId' in input && (input.cursor ?? null) === cursor)
      const nth = job.polls.get(cursor) ?? 0
      job.polls.set(cursor, nth + 1)
      const answer = played[Math.min(nth, played.length - 1)]?.answer
      if (answer === undefined) return NO_CASE
      return { ...answer, body: renameJob(fitAnswer(answer.body, job.from, job.to, job.places), job.of, id) }
    }
    return null
  }

  /** A new identifier, a whole number where the one of the cases is. */
  #createId(of: string): string {
    const isNumber = /^\d{1,15}$/.test(of)
    for (let n = 1; ; n++) {
      const id = isNumber ? String(Number(of) + n) : `${of}-${n}`
      if (!this.#jobs.has(id)) return id
    }
  }

  /** The identifier of each input, in the order of the inputs; none of an acceptance without. */
  #readRequestIds(
    { status = 200, headers = {}, body }: CannedAnswer,
    inputs: readonly JobInput[],
  ): readonly (readonly string[])[] {
    const bulk = this.#service[toBulkName({ inputs })]
    const reading = bulk?.read?.({ status, headers, body }, toJobInputs({ inputs }))
    const { requestIds = null } = reading?.outcome === 'accepted' ? reading : parseBulkResponse(body)
    if (requestIds === null) return []
    return inputs.map(({ email, linkedinUrl, domain }, n) =>
      toList(Array.isArray(requestIds) ? requestIds[n] : requestIds[email ?? linkedinUrl ?? domain ?? '']),
    )
  }
}

const toList = (name: string | undefined): readonly string[] => (name === undefined ? [] : [name])

/** What names the input of a case, or the inputs of its job. */
const namesOf = (input: ServiceCase['input']): readonly (readonly string[])[] => findEmails(input).map(toList)

/** The inputs of a job that was sent, beside those of a case. Emails are known wherever they are. */
function align(
  bulk: BulkCall,
  inputs: readonly JobInput[],
  { body, query }: SentRequest,
): AlignedJobs | null {
  if (bulk.kinds.every((kind) => kind === 'email')) {
    const from = findEmails(inputs).map(toList)
    const to = findEmails([body, query]).map(toList)
    return { from, to, places: to.map((_, n) => n % from.length) }
  }
  const webhookUrl = bulk.results === 'webhook' ? 'https://fillrate.example' : null
  const parts = bulk.build({ ...toJobInputs({ inputs }), webhookUrl })
  return alignJobs(parseSentBody(parts.body ?? '', parts.isForm === true), inputs, body)
}

/** What the client sends for an input; null for a job: its webhook address is another each time, and its polls have an order. */
function buildRequest(service: Service, input: ServiceCase['input']): PlayedCase['sent'] {
  if ('jobId' in input || isJob(input)) return null
  if ('domain' in input) return service.company && toSent(service.company, input)
  return service.person && toSent(service.person, input)
}

function toSent<Input>(
  call: { readonly endpoint: string; build(input: Input): ReturnType<PollCall['build']> },
  input: Input,
): NonNullable<PlayedCase['sent']> {
  const parts = call.build(input)
  const [method = '', path = ''] = call.endpoint.split(' ')
  return {
    method,
    path: parts.path ?? path,
    query: Object.fromEntries(new URLSearchParams(parts.query)),
    body: parseSentBody(parts.body ?? '', parts.isForm === true),
  }
}

/** A key in the query is no part of the request that a case describes. */
const isSame = (sent: NonNullable<PlayedCase['sent']>, request: SentRequest): boolean =>
  sent.method === request.method &&
  sent.path === request.path &&
  Object.entries(sent.query).every(([name, value]) => request.query[name] === value) &&
  isDeepStrictEqual(sent.body, request.body)
