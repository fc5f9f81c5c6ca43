import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FaultName, Opportunity, type SandboxEndpoint, isFaultInjected } from './faults.ts'
import type { JobQueue, SandboxJob } from './jobs.ts'
import type { SandboxOptions } from './options.ts'
import type { SandboxRequest } from './requests.ts'
import { type SandboxResponse, errorResponse, malformedRecord, sendResponse } from './responses.ts'
import { findRecord, toEmailInput } from './results.ts'
import { abortableDelay } from './rng.ts'
import type { CountedWork, StatsRecorder } from './stats.ts'
import { type RateWindow, type WindowDecision, consume, limitHeaders, retryAfterHeader } from './windows.ts'

export interface CallContext {
  readonly settings: () => SandboxOptions
  readonly recorder: StatsRecorder
  readonly jobs: JobQueue
  /** The open window of each key. */
  readonly windows: Map<string, RateWindow>
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

/**
 * Answers one call. It is decided on arrival (after `latencyBeforeMs`); only the answer is delayed. Calls are
 * therefore counted in the order in which they arrive.
 */
export async function handleCall(call: SandboxCall, context: CallContext): Promise<void> {
  const { request, response, endpoint, question, key } = call
  const { recorder, jobs, closing, settings } = context
  const { inputs } = question
  const point = { endpoint, inputs, nth: recorder.tried(inputs) }
  const opportunity = new Opportunity(point, settings, (fault) => recorder.fault(fault))
  const drop = () => {
    recorder.request(endpoint, 'dropped')
    request.socket.destroy()
  }

  await abortableDelay(opportunity.drawMs(settings().latencyBeforeMs, 'before'), closing)
  if (closing.aborted) return
  const decision = decideCall(question, opportunity, key, context)
  const { answer, work, job, isDropped = false } = decision
  if (work === 'bulk') recorder.done(inputs, 'bulk')

  await abortableDelay(opportunity.drawMs(settings().latencyAfterMs, 'after'), closing)
  const isEarly = job !== undefined && !closing.aborted && job.opportunity.injects('early')
  if (isEarly) await jobs.startNow(job)
  if (closing.aborted) return

  // A client that has disconnected never sees the answer, although the work was done.
  const isUnanswered = isDropped || response.destroyed
  if (work === 'single') recorder.done(inputs, isUnanswered ? 'unanswered' : 'single')
  if (isDropped) drop()
  else {
    recorder.request(endpoint, answer.status)
    sendResponse(response, answer)
  }
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

const FAILURES = ['500', '503'] as const satisfies readonly FaultName[]

/** Decides on arrival whether a call is throttled, failed or processed. */
function decideCall(
  question: SandboxRequest,
  opportunity: Opportunity,
  key: string,
  context: CallContext,
): CallDecision {
  const options = context.settings()
  const failure = FAILURES.find((fault) => isFaultInjected(fault, opportunity.point, options))
  const verdict = countCall(key, context)
  const withLimit = (answer: SandboxResponse): SandboxResponse =>
    verdict === null ? answer : { ...answer, headers: { ...limitHeaders(verdict), ...answer.headers } }
  if (verdict?.accepted === false) return { answer: withLimit(rateLimitedResponse(verdict, options)) }
  const decision =
    failure === undefined ? doWork(question, opportunity, context) : { answer: failureResponse(failure) }
  if (failure !== undefined) context.recorder.fault(failure)
  const isLostByGateway = failure === undefined && opportunity.injects('504')
  const answer = isLostByGateway
    ? errorResponse(504, 'gateway_timeout', 'fault 504 of the sandbox')
    : decision.answer
  return {
    ...decision,
    answer: withLimit(answer),
    isDropped: opportunity.injects('drop-after'),
  }
}

/** Counts a call against the limit of its key; null if there is no limit. */
function countCall(key: string, { settings, recorder, windows }: CallContext): WindowDecision | null {
  const options = settings()
  const { limit } = options
  if (limit === null) {
    recorder.counts.calls.accepted += 1
    return null
  }
  const verdict = consume(windows.get(key), Date.now(), { ...options, limit })
  windows.set(key, verdict.window)
  recorder.verdict(options.keys.indexOf(key) + 1, verdict)
  return verdict
}

function rateLimitedResponse(verdict: WindowDecision, options: SandboxOptions): SandboxResponse {
  if (options.banStatus === 403 && Date.now() < verdict.window.bannedUntil)
    return errorResponse(403, 'banned', 'too many calls beyond the limit')
  const message = `the limit of ${verdict.limit} calls per window is reached`
  return errorResponse(429, 'rate_limited', message, retryAfterHeader(verdict, Date.now()))
}

function failureResponse(fault: (typeof FAILURES)[number]): SandboxResponse {
  const message = `fault ${fault} of the sandbox`
  return fault === '500'
    ? errorResponse(500, 'server_error', message)
    : errorResponse(503, 'unavailable', message)
}

function doWork(
  question: SandboxRequest,
  opportunity: Opportunity,
  { settings, jobs }: CallContext,
): CallDecision {
  const options = settings()
  if (question.kind === 'problem') {
    const { status, code, message } = question.problem
    // A single input rejected with 422 was processed; the inputs of a rejected bulk call were not.
    const isAsked = status === 422 && opportunity.point.endpoint !== 'POST /v1/person/bulk'
    return { answer: errorResponse(status, code, message), ...(isAsked && { work: 'single' }) }
  }
  if (question.kind === 'bulk') {
    const job = jobs.accept(question.emails.map(toEmailInput), opportunity, question.webhookUrl)
    return { answer: { status: 202, body: jobs.accepted(job) }, job, work: 'bulk' }
  }
  const { lookup } = question
  if (opportunity.injects('202')) {
    const webhookUrl = question.webhookUrl ?? null
    const job = jobs.accept([{ lookup, asWritten: lookup.key }], opportunity, webhookUrl)
    const answer = { status: 202, body: jobs.accepted(job) }
    return { answer, job, ...(webhookUrl !== null && { work: 'bulk' }) }
  }
  if (opportunity.injects('not-a-record'))
    return { answer: malformedRecord(opportunity.draw('not a record')) }
  const record = findRecord(lookup, options)
  if (record === undefined) return { answer: errorResponse(404, 'not_found', 'no match'), work: 'single' }
  return { answer: { status: 200, body: record }, work: 'single' }
}
