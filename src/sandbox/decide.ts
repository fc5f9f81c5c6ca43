import { errorAnswer, notARecord } from './answers.ts'
import type { Answer } from './answers.ts'
import { chance } from './chance.ts'
import { isMade, momentText } from './faults.ts'
import type { FaultName, Moment } from './faults.ts'
import type { Work } from './input-counts.ts'
import type { Job, Jobs } from './jobs.ts'
import type { SandboxOptions } from './options.ts'
import type { Question } from './questions.ts'
import { emailInput, find } from './results.ts'
import type { Recorder } from './stats.ts'
import { limitHeaders, look, retryAfterHeader, take } from './windows.ts'
import type { Verdict, Window } from './windows.ts'

export interface CallContext {
  readonly settings: () => SandboxOptions
  readonly recorder: Recorder
  readonly jobs: Jobs
  /** The open window of each key. */
  readonly windows: Map<string, Window>
  readonly closing: AbortSignal
}

/** What becomes of a call: the answer, the work that was done for it, and the job that begins with it. */
export interface Decision {
  readonly answer: Answer
  readonly work?: Work
  readonly job?: Job
  /** The connection is dropped instead of the answer. */
  readonly isDropped?: boolean
  readonly isSlow?: boolean
}

const failures = ['500', '503', '503-retry-after'] as const

function failureAnswer(fault: (typeof failures)[number], options: SandboxOptions): Answer {
  const message = `fault ${fault} of the sandbox`
  if (fault === '500') return errorAnswer(500, 'server_error', message)
  if (fault === '503') return errorAnswer(503, 'unavailable', message)
  return errorAnswer(503, 'unavailable', message, { 'Retry-After': String(options.unavailableSeconds) })
}

/** Counts a call against the limit of its key, or only looks at it; undefined where there is no limit. */
function count(key: string, counts: boolean, context: CallContext): Verdict | undefined {
  const options = context.settings()
  const { limit } = options
  if (limit === null) {
    if (counts) context.recorder.unlimited()
    return undefined
  }
  const rules = { ...options, limit }
  if (!counts) return look(context.windows.get(key), Date.now(), rules)
  const verdict = take(context.windows.get(key), Date.now(), rules)
  context.windows.set(key, verdict.window)
  context.recorder.verdict(key, options.keys.indexOf(key) + 1, verdict)
  return verdict
}

function refusal(verdict: Verdict, options: SandboxOptions): Answer {
  const message = `the limit of ${verdict.limit} calls per window is reached`
  return errorAnswer(429, 'rate_limited', message, retryAfterHeader(verdict, Date.now(), options))
}

/** Adds the rate-limit headers, on the share of responses that carry them. */
function withLimit(
  answer: Answer,
  verdict: Verdict | undefined,
  moment: Moment,
  options: SandboxOptions,
): Answer {
  if (verdict === undefined) return answer
  const { headersShare, seed } = options
  if (headersShare < 1 && !chance(seed, `headers ${momentText(moment)}`).below(headersShare)) return answer
  return { ...answer, headers: { ...limitHeaders(verdict, options), ...answer.headers } }
}

function doWork(
  question: Question,
  moment: Moment,
  made: (fault: FaultName) => boolean,
  { settings, jobs }: CallContext,
): Decision {
  const options = settings()
  if (question.kind === 'problem') {
    const { status, code, message } = question.problem
    // A single input that is refused was looked at, and need not be asked again; of a bulk call none was.
    const isAsked = status === 422 && moment.endpoint !== 'POST /v1/person/bulk'
    return { answer: errorAnswer(status, code, message), ...(isAsked && { work: 'single' }) }
  }
  if (question.kind === 'bulk') {
    const job = jobs.accept(question.emails.map(emailInput), moment, question.webhookUrl)
    return { answer: { status: 202, body: jobs.accepted(job) }, job, work: 'bulk' }
  }
  const { lookup } = question
  if (made('202')) {
    const registered = options.webhookUrl === null ? null : new URL(options.webhookUrl)
    const webhookUrl = question.webhookUrl ?? registered
    const job = jobs.accept([{ lookup, asWritten: lookup.key }], moment, webhookUrl)
    const answer = { status: 202, body: jobs.accepted(job) }
    return { answer, job, ...(webhookUrl !== null && { work: 'bulk' }) }
  }
  if (made('not-a-record')) return { answer: notARecord(options.seed, momentText(moment)) }
  const record = find(lookup, options)
  if (record === undefined) return { answer: errorAnswer(404, 'not_found', 'no match'), work: 'single' }
  return { answer: { status: 200, body: record }, work: 'single' }
}

/**
 * Decides at once what becomes of a call that has arrived: counted or refused, failed or done. Undefined
 * where the connection is dropped before it is counted.
 */
export function decide(
  question: Question,
  moment: Moment,
  key: string,
  context: CallContext,
): Decision | undefined {
  const options = context.settings()
  const made = (fault: FaultName): boolean => {
    const is = isMade(fault, moment, options)
    if (is) context.recorder.fault(fault)
    return is
  }
  if (made('drop-before')) return undefined
  const failure = failures.find((fault) => isMade(fault, moment, options))
  const verdict = count(key, failure === undefined || options.errorsCount, context)
  if (verdict !== undefined && !verdict.accepted) {
    return { answer: withLimit(refusal(verdict, options), verdict, moment, options) }
  }
  if (failure !== undefined) context.recorder.fault(failure)
  const decision =
    failure === undefined
      ? doWork(question, moment, made, context)
      : { answer: failureAnswer(failure, options) }
  const isLostByGateway = failure === undefined && made('504')
  const answer = isLostByGateway
    ? errorAnswer(504, 'gateway_timeout', 'fault 504 of the sandbox')
    : decision.answer
  return {
    ...decision,
    answer: withLimit(answer, verdict, moment, options),
    isDropped: made('drop-after'),
    isSlow: made('slow'),
  }
}
