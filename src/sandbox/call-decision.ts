import { type SandboxResponse, errorResponse, malformedRecord } from './responses.ts'
import { createRng } from './rng.ts'
import { type FaultName, type FaultPoint, faultPointKey, isFaultInjected } from './faults.ts'
import type { CountedWork, StatsRecorder } from './stats.ts'
import type { SandboxJob, SandboxJobs } from './jobs.ts'
import type { SandboxOptions } from './options.ts'
import type { SandboxRequest } from './requests.ts'
import { findRecord, toEmailInput } from './results.ts'
import {
  type RateWindow,
  type WindowDecision,
  consume,
  limitHeaders,
  peek,
  retryAfterHeader,
} from './windows.ts'

export interface CallContext {
  readonly settings: () => SandboxOptions
  readonly recorder: StatsRecorder
  readonly jobs: SandboxJobs
  /** The open window of each key. */
  readonly windows: Map<string, RateWindow>
  readonly closing: AbortSignal
}

/** How a call is answered, the work done for it, and the job that it starts. */
export interface CallDecision {
  readonly answer: SandboxResponse
  readonly work?: CountedWork
  readonly job?: SandboxJob
  /** The connection is dropped instead of answered. */
  readonly isDropped?: boolean
  readonly isSlow?: boolean
}

const failures = ['500', '503', '503-retry-after'] as const

function failureResponse(fault: (typeof failures)[number], options: SandboxOptions): SandboxResponse {
  const message = `fault ${fault} of the sandbox`
  if (fault === '500') return errorResponse(500, 'server_error', message)
  if (fault === '503') return errorResponse(503, 'unavailable', message)
  return errorResponse(503, 'unavailable', message, { 'Retry-After': String(options.unavailableSeconds) })
}

/** Counts a call against the limit of its key, or only reads the window; undefined if there is no limit. */
function countCall(key: string, counts: boolean, context: CallContext): WindowDecision | undefined {
  const options = context.settings()
  const { limit } = options
  if (limit === null) {
    if (counts) context.recorder.unlimited()
    return undefined
  }
  const rules = { ...options, limit }
  if (!counts) return peek(context.windows.get(key), Date.now(), rules)
  const verdict = consume(context.windows.get(key), Date.now(), rules)
  context.windows.set(key, verdict.window)
  context.recorder.verdict(key, options.keys.indexOf(key) + 1, verdict)
  return verdict
}

function rateLimitedResponse(verdict: WindowDecision, options: SandboxOptions): SandboxResponse {
  if (options.banStatus === 403 && Date.now() < verdict.window.bannedUntil)
    return errorResponse(403, 'banned', 'too many calls beyond the limit')
  const message = `the limit of ${verdict.limit} calls per window is reached`
  return errorResponse(429, 'rate_limited', message, retryAfterHeader(verdict, Date.now(), options))
}

/** Adds the rate-limit headers to the configured share of responses. */
function withLimit(
  answer: SandboxResponse,
  verdict: WindowDecision | undefined,
  point: FaultPoint,
  options: SandboxOptions,
): SandboxResponse {
  if (verdict === undefined) return answer
  const { headersShare, seed } = options
  if (headersShare < 1 && !createRng(seed, `headers ${faultPointKey(point)}`).below(headersShare))
    return answer
  return { ...answer, headers: { ...limitHeaders(verdict, options), ...answer.headers } }
}

function doWork(
  question: SandboxRequest,
  point: FaultPoint,
  made: (fault: FaultName) => boolean,
  { settings, jobs }: CallContext,
): CallDecision {
  const options = settings()
  if (question.kind === 'problem') {
    const { status, code, message } = question.problem
    // A single input rejected with 422 was processed; the inputs of a rejected bulk call were not.
    const isAsked = status === 422 && point.endpoint !== 'POST /v1/person/bulk'
    return { answer: errorResponse(status, code, message), ...(isAsked && { work: 'single' }) }
  }
  if (question.kind === 'bulk') {
    const job = jobs.accept(question.emails.map(toEmailInput), point, question.webhookUrl)
    return { answer: { status: 202, body: jobs.accepted(job) }, job, work: 'bulk' }
  }
  const { lookup } = question
  if (made('202')) {
    const registered = options.webhookUrl === null ? null : new URL(options.webhookUrl)
    const webhookUrl = question.webhookUrl ?? registered
    const job = jobs.accept([{ lookup, asWritten: lookup.key }], point, webhookUrl)
    const answer = { status: 202, body: jobs.accepted(job) }
    return { answer, job, ...(webhookUrl !== null && { work: 'bulk' }) }
  }
  if (made('not-a-record')) return { answer: malformedRecord(options.seed, faultPointKey(point)) }
  const record = findRecord(lookup, options)
  if (record === undefined) return { answer: errorResponse(404, 'not_found', 'no match'), work: 'single' }
  return { answer: { status: 200, body: record }, work: 'single' }
}

/**
 * Decides on arrival whether a call is counted or throttled, failed or processed. Undefined if the connection is
 * dropped before the call is counted.
 */
export function decideCall(
  question: SandboxRequest,
  point: FaultPoint,
  key: string,
  context: CallContext,
): CallDecision | undefined {
  const options = context.settings()
  const made = (fault: FaultName): boolean => {
    const is = isFaultInjected(fault, point, options)
    if (is) context.recorder.fault(fault)
    return is
  }
  if (made('drop-before')) return undefined
  const failure = failures.find((fault) => isFaultInjected(fault, point, options))
  const verdict = countCall(key, failure === undefined || options.errorsCount, context)
  if (verdict !== undefined && !verdict.accepted) {
    return { answer: withLimit(rateLimitedResponse(verdict, options), verdict, point, options) }
  }
  if (failure !== undefined) context.recorder.fault(failure)
  const decision =
    failure === undefined
      ? doWork(question, point, made, context)
      : { answer: failureResponse(failure, options) }
  const isLostByGateway = failure === undefined && made('504')
  const answer = isLostByGateway
    ? errorResponse(504, 'gateway_timeout', 'fault 504 of the sandbox')
    : decision.answer
  return {
    ...decision,
    answer: withLimit(answer, verdict, point, options),
    isDropped: made('drop-after'),
    isSlow: made('slow'),
  }
}
