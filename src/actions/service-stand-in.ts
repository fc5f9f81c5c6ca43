import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../domain/json.ts'
import { isOAuth } from '../domain/service/auth.ts'
import type { PollCall, Service } from '../domain/service/service.ts'
import {
  type CannedAnswer,
  parseSentBody,
  readRequest,
  type SentRequest,
  writeCaseAnswer,
} from './case-messages.ts'
import type { DeliveryCase, ServiceCase } from './service-cases.ts'

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
 * of a case without a match at the same path, or a 404. A bulk call of any emails, and the poll of its job, get the answer
 * of a case, adapted to these emails; too many emails for the service are refused. Rejects if the port is in use.
 */
export async function openServiceStandIn(
  service: Service,
  cases: readonly (ServiceCase | DeliveryCase)[],
  { host, port }: { readonly host: string; readonly port: number },
): Promise<ServiceStandIn> {
  const played = cases.flatMap((one): PlayedCase[] =>
    'delivery' in one ? [] : [{ ...one, sent: buildRequest(service, one.input) }],
  )
  const bulkPath = service.bulk?.endpoint.split(' ')[1]
  const jobs = new PlayedJobs(service, played)
  const { auth } = service
  const choose = (request: SentRequest): CannedAnswer => {
    if (isOAuth(auth) && request.path === auth.oauth.tokenUrl.split('?')[0]) return TOKEN_ANSWER
    const polled = jobs.poll(request)
    if (polled !== null) return polled
    const isAsked = ({ sent }: PlayedCase): boolean => sent !== null && isSame(sent, request)
    const exact = played.find(isAsked)
    if (exact !== undefined) return exact.answer
    if (request.path === bulkPath) return jobs.submit(request)
    const isMiss = ({ sent, expect }: PlayedCase): boolean =>
      sent?.path === request.path && expect.outcome === 'not_found'
    return played.find(isMiss)?.answer ?? NO_CASE
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
  /** The identifier that the case has. */
  readonly of: string
  readonly emails: readonly string[]
  polls: number
}

/** The bulk calls that a stand-in has answered. */
class PlayedJobs {
  readonly #service: Service
  readonly #cases: readonly PlayedCase[]
  readonly #jobs = new Map<string, PlayedJob>()

  constructor(service: Service, cases: readonly PlayedCase[]) {
    this.#service = service
    this.#cases = cases
  }

  submit(request: SentRequest): CannedAnswer {
    const emails = findEmails([request.body, request.query])
    const size = this.#service.bulk?.size ?? emails.length
    if (emails.length > size)
      return { status: 422, body: { error: `${emails.length} emails, where a call takes ${size}` } }
    const isBulk = ({ input, expect }: PlayedCase): boolean =>
      'emails' in input && expect.outcome === 'accepted'
    const isExact = ({ input }: PlayedCase): boolean =>
      'emails' in input && isDeepStrictEqual(input.emails, emails)
    const played = this.#cases.find(isExact) ?? this.#cases.find(isBulk)
    if (played === undefined) return NO_CASE
    const { input, answer, expect } = played
    const from = 'emails' in input ? input.emails : []
    const { jobId } = expect
    if (typeof jobId !== 'string') return { ...answer, body: fitToEmails(answer.body, from, emails) }
    const id = `${jobId}-${this.#jobs.size + 1}`
    this.#jobs.set(id, { of: jobId, emails, polls: 0 })
    return { ...answer, body: replaceText(fitToEmails(answer.body, from, emails), jobId, id) }
  }

  /** The answer of the first case about the job, then of the second, and so on. Null: the request is no poll of a job. */
  poll(request: SentRequest): CannedAnswer | null {
    const { poll } = this.#service
    if (poll === null) return null
    for (const [id, job] of this.#jobs) {
      if (!isSame(toSent(poll, id), request)) continue
      const played = this.#cases.filter(({ input }) => 'jobId' in input && input.jobId === job.of)
      const answer = played[Math.min(job.polls++, played.length - 1)]?.answer
      if (answer === undefined) return NO_CASE
      const from = findEmails(answer.body)
      return { ...answer, body: replaceText(fitToEmails(answer.body, from, job.emails), job.of, id) }
    }
    return null
  }
}

/** The distinct addresses in a text of JSON, in their order. */
const findEmails = (value: unknown): string[] => [
  ...new Set(
    [...JSON.stringify(value ?? null).matchAll(/"([^"\\\s]+@[^"\\\s]+)"/g)].map(([, email = '']) => email),
  ),
]

/** An answer for other emails: a list with an item for each email of the case gets one for each of these. */
function fitToEmails(body: unknown, from: readonly string[], to: readonly string[]): unknown {
  if (Array.isArray(body) && from.length > 0 && body.length === from.length)
    return to.map((email, n) => replaceText(body[n % from.length], from[n % from.length] ?? '', email))
  if (!isObject(body)) return body
  return Object.fromEntries(
    Object.entries(body).map(([field, value]) => [field, fitToEmails(value, from, to)]),
  )
}

/** A value in which each text that is `from` is `to`. */
const replaceText = (value: unknown, from: string, to: string): unknown =>
  value === undefined
    ? value
    : JSON.parse(JSON.stringify(value).replaceAll(JSON.stringify(from), () => JSON.stringify(to)))

/** What the client sends for an input; null for a job, whose webhook address is another each time. */
function buildRequest(service: Service, input: ServiceCase['input']): PlayedCase['sent'] {
  if ('emails' in input) return null
  if ('jobId' in input) return service.poll && toSent(service.poll, input.jobId)
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
