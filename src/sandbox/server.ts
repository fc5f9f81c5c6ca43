import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { JobQueue, type SandboxJob, findRecord, toEmailInput } from './jobs.ts'
import { DEFAULT_OPTIONS, type SandboxOptions, Opportunity, type SandboxEndpoint } from './options.ts'
import { findEndpoint, parseRequest, type SandboxRequest } from './requests.ts'
import { type SandboxStats, StatsRecorder, type CountedWork, increment } from './stats.ts'
import { RateLimit, type WindowDecision } from './windows.ts'
import { abortableDelay } from './rng.ts'

/** A running sandbox: the enrichment service on this machine. */
export interface Sandbox {
  /** Base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** Counts since the start or the last reset; `inputs` adds the counts of every input. */
  stats(options?: { inputs?: boolean }): SandboxStats
  /** Clears the counts. Jobs, deliveries and windows continue. */
  reset(): void
  /** Changes options while the sandbox runs. Each replaces its former value, so `faults: {}` disables all. */
  configure(options: Partial<Omit<SandboxOptions, 'port'>>): void
  /** Delivers all pending jobs now, whatever their delay: for tests that control the order. */
  releaseJobs(): void
  /** Closes at once: connections are cut, pending jobs and deliveries never arrive. */
  close(): Promise<void>
}

/** Starts the sandbox. Rejects if it cannot listen. */
export async function startSandbox(given: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  let options: SandboxOptions = { ...DEFAULT_OPTIONS, ...given }
  const settings = () => options
  const recorder = new StatsRecorder()
  const rateLimit = new RateLimit()
  const jobs = new JobQueue(settings, recorder)
  const closing = new AbortController()
  const context: CallContext = { settings, recorder, jobs, rateLimit, closing: closing.signal }
  const stats: Sandbox['stats'] = ({ inputs = false } = {}) =>
    recorder.snapshot(jobs.pending, rateLimit, inputs)

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request)
    const { method = '', headers, url = '/' } = request
    const [path = '', search = ''] = url.split('?')
    if (path === '/_stats') return sendResponse(response, { status: 200, body: stats() })
    const endpoint = findEndpoint(method, path)
    if (endpoint === undefined)
      return sendResponse(response, errorResponse(404, 'no_such_endpoint', `there is no ${method} ${path}`))
    const key = /^Bearer +(.*)$/i.exec(headers.authorization ?? '')?.[1]
    if (key === undefined || !options.keys.includes(key)) {
      recorder.request(endpoint, 401)
      return sendResponse(response, errorResponse(401, 'unauthorized', 'the API key is missing or not valid'))
    }
    const question = parseRequest(endpoint, new URLSearchParams(search), body)
    await handleCall({ request, response, endpoint, question, key }, context)
  }

  // A client that disconnects during its body gets no answer.
  const server = createServer({ keepAlive: true, noDelay: true }, (request, response) =>
    answer(request, response).catch(() => response.destroy()),
  )
  // Longer than any client keeps a connection, so that the server never closes one just as a call starts.
  server.keepAliveTimeout = 120_000
  server.listen(options.port, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get keys() {
      return options.keys
    },
    get webhookSecret() {
      return options.webhookSecret
    },
    stats,
    reset: () => {
      recorder.reset()
      rateLimit.windows.length = 0
    },
    configure: (changes) => {
      options = { ...options, ...changes }
    },
    releaseJobs: () => jobs.release(),
    close: async () => {
      if (closing.signal.aborted) return
      closing.abort()
      jobs.close()
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

interface CallContext {
  readonly settings: () => SandboxOptions
  readonly recorder: StatsRecorder
  readonly jobs: JobQueue
  readonly rateLimit: RateLimit
  readonly closing: AbortSignal
}

/** One authenticated call with its body. */
interface SandboxCall {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: SandboxEndpoint
  readonly question: SandboxRequest
  readonly key: string
}

/** A response with a JSON value, or with text sent as it is. */
interface SandboxResponse {
  readonly status: number
  readonly body: object | string
  readonly headers?: Readonly<Record<string, string>>
}

/** Every error has this body; service-interface.md does not show its shape (Errors 3). */
function errorResponse(status: number, code: string, message: string): SandboxResponse {
  return { status, body: { error: { code, message } } }
}

function sendResponse(response: ServerResponse, { status, body, headers }: SandboxResponse): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const ownHeaders = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, { ...ownHeaders, ...headers }).end(text)
}

/**
 * Answers one call. It is decided on arrival; only the answer is delayed. Calls are therefore counted in the order in
 * which they arrive.
 */
async function handleCall(call: SandboxCall, context: CallContext): Promise<void> {
  const { request, response, endpoint, question, key } = call
  const { recorder, jobs, closing, settings } = context
  const { inputs } = question
  const point = { endpoint, inputs, nth: recorder.tried(inputs) }
  const opportunity = new Opportunity(point, settings, (fault) => increment(recorder.counts.faults, fault))
  const { answer, work, job, isDropped = false } = decideCall(question, opportunity, key, context)
  if (work === 'bulk') recorder.done(inputs, 'bulk')

  await abortableDelay(opportunity.drawMs(settings().latencyAfterMs, 'after'), closing)
  const isEarly = job !== undefined && !closing.aborted && job.opportunity.injects('early')
  if (isEarly) await jobs.startNow(job)
  if (closing.aborted) return

  // A client that has disconnected never sees the answer, although the work was done.
  const isUnanswered = isDropped || response.destroyed
  if (work === 'single') recorder.done(inputs, isUnanswered ? 'unanswered' : 'single')
  recorder.request(endpoint, isDropped ? 'dropped' : answer.status)
  if (isDropped) request.socket.destroy()
  else sendResponse(response, answer)
  if (job !== undefined && !isEarly) await jobs.start(job)
}

/** How a call is answered, the work done for it, and the job that it starts. */
interface CallDecision {
  readonly answer: SandboxResponse
  readonly work?: CountedWork
  readonly job?: SandboxJob
  /** The connection is dropped instead of answered. */
  readonly isDropped?: boolean
}

/** Decides on arrival whether a call is throttled, failed or processed. */
function decideCall(
  question: SandboxRequest,
  opportunity: Opportunity,
  key: string,
  context: CallContext,
): CallDecision {
  const verdict = countCall(key, context)
  const withLimit = (answer: SandboxResponse): SandboxResponse =>
    verdict === null ? answer : { ...answer, headers: verdict.headers }
  if (verdict?.isAccepted === false) {
    const refusal = verdict.isBanned
      ? errorResponse(403, 'banned', 'too many calls beyond the limit')
      : errorResponse(429, 'rate_limited', 'the limit of calls per window is reached')
    return { answer: withLimit(refusal) }
  }
  const failure = (['500', '503'] as const).find((fault) => opportunity.injects(fault))
  const decision =
    failure === undefined ? doWork(question, opportunity, context) : { answer: toFault(failure) }
  const isLostByGateway = failure === undefined && opportunity.injects('504')
  return {
    ...decision,
    answer: withLimit(isLostByGateway ? toFault('504') : decision.answer),
    isDropped: opportunity.injects('drop-after'),
  }
}

const toFault = (status: '500' | '503' | '504'): SandboxResponse =>
  errorResponse(Number(status), 'server_error', `fault ${status} of the sandbox`)

/** Counts a call against the limit of its key; null if there is no limit. */
function countCall(key: string, { settings, recorder, rateLimit }: CallContext): WindowDecision | null {
  const { limit, ...options } = settings()
  const verdict = limit === null ? null : rateLimit.count(key, Date.now(), { ...options, limit })
  recorder.counts.calls[verdict?.isAccepted === false ? 'refused' : 'accepted'] += 1
  return verdict
}

/** Bodies of a 200 that are not a record of a person or a company. */
const MALFORMED_RECORDS = [
  '<!doctype html><title>Service</title><h1>It works</h1>',
  '',
  '{"success":false}',
  '{"id":"per_1","name":{"full":"Ann',
  '{"id":"per_1","name":"Ann Berg","confidence":"high"}',
] as const

function doWork(
  question: SandboxRequest,
  opportunity: Opportunity,
  { settings, jobs }: CallContext,
): CallDecision {
  if (question.kind === 'problem')
    return { answer: errorResponse(question.status, 'invalid_request', question.message) }
  if (question.kind === 'bulk') {
    const job = jobs.accept(question.emails.map(toEmailInput), opportunity, question.webhookUrl)
    return { answer: { status: 202, body: jobs.accepted(job) }, job, work: 'bulk' }
  }
  const { lookup, webhookUrl } = question
  if (opportunity.injects('202')) {
    const job = jobs.accept([{ lookup, asWritten: lookup.key }], opportunity, webhookUrl)
    const answer = { status: 202, body: jobs.accepted(job) }
    return { answer, job, ...(webhookUrl !== null && { work: 'bulk' }) }
  }
  if (opportunity.injects('not-a-record'))
    return { answer: { status: 200, body: opportunity.draw('not a record').pick(MALFORMED_RECORDS) } }
  const record = findRecord(lookup, settings())
  if (record === undefined) return { answer: errorResponse(404, 'not_found', 'no match'), work: 'single' }
  return { answer: { status: 200, body: record }, work: 'single' }
}
