import type { IncomingMessage, ServerResponse } from 'node:http'
import { Opportunity, type SandboxEndpoint, type SandboxOptions } from './options.ts'
import { type JobQueue, type SandboxJob, findRecord, toEmailInput } from './jobs.ts'
import type { SandboxRequest } from './requests.ts'
import { abortableDelay } from './rng.ts'
import { type CountedWork, type StatsRecorder, increment } from './stats.ts'
import type { RateLimit, WindowDecision } from './windows.ts'

export interface CallContext {
  readonly settings: () => SandboxOptions
  readonly recorder: StatsRecorder
  readonly jobs: JobQueue
  readonly rateLimit: RateLimit
  readonly closing: AbortSignal
}

/** One authenticated call with its body. */
export interface SandboxCall {
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
export function errorResponse(status: number, code: string, message: string): SandboxResponse {
  return { status, body: { error: { code, message } } }
}

export function sendResponse(response: ServerResponse, { status, body, headers }: SandboxResponse): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const ownHeaders = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, { ...ownHeaders, ...headers }).end(text)
}

/**
 * Answers one call. It is decided on arrival; only the answer is delayed. Calls are therefore counted in the order in
 * which they arrive.
 */
export async function handleCall(call: SandboxCall, context: CallContext): Promise<void> {
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
