import { hash } from 'node:crypto'
import { pluralize } from '../util/text.ts'
import { backoffMs } from './backoff.ts'
import { toIdentifier } from './json.ts'

/**
 *     submitting ──202──▶ submitted ──delivery──▶ completed | failed
 *         │ │                 ├──────deadline───▶ expired
 *         │ │                 └───no credits────▶ rejected
 *         │ └─ no response, 502, 504, a crash ──▶ in_doubt ──delivery──▶ completed | failed; deadline ─▶ expired
 *         └─ refused (domain/service/status.ts), or not accepted five times ─▶ rejected
 *     submitted ──results that name no input, as none ever did──▶ unread ──delivery──▶ completed; cancelled ─▶ expired
 *
 * A delivery is accepted in every state. A job in doubt is never submitted again. A status that is not terminal changes
 * nothing. A finished job keeps its inputs without a result for some minutes, for a further delivery; an unread one until its results are
 * read with a description that fits, because they are paid for.
 */
export const Job = {
  submitting: 'submitting',
  submitted: 'submitted',
  completed: 'completed',
  unread: 'unread',
  failed: 'failed',
  inDoubt: 'in_doubt',
  rejected: 'rejected',
  expired: 'expired',
} as const
export type JobState = (typeof Job)[keyof typeof Job]

/** Emails in one bulk call at most, unless the service says otherwise. */
export const JOB_SIZE = 100
/** What a service may take at most. A job is one row and one answer, which is read whole. */
export const MAX_JOB_SIZE = 1_000

/** The result of a submission. */
export type SubmitEvent =
  | { readonly type: 'accepted'; readonly jobId: string | null; readonly requestIds: unknown }
  /** The service refuses it. Its members are requested singly. */
  | { readonly type: 'rejected'; readonly reason: string }
  /** Not accepted, by its status (429, 500, 503) or a refused connection. The same job is submitted again. */
  | {
      readonly type: 'not_accepted'
      readonly reason: string
      readonly retryAfterMs: number | null
      readonly countsAsAttempt: boolean
      /** A 500 may follow completed work: its members count as unconfirmed calls. */
      readonly mayBeBilled: boolean
    }
  /** It may have arrived: a timeout, a lost connection, a gateway's 502 or 504. */
  | { readonly type: 'unconfirmed'; readonly reason: string }

/** The fields that a transition persists. */
export interface JobFields {
  readonly state: JobState
  readonly reason: string | null
  readonly jobId: string | null
  readonly requestIds: unknown
  readonly attempts: number
  readonly notBefore: Date | null
  readonly submittedAt: Date | null
  readonly finishedAt: Date | null
}

/** The state of a job after a submission. */
export function afterSubmit(
  job: { readonly attempts: number },
  event: SubmitEvent,
  limits: { readonly attempts: number },
  now: number,
  random: number,
): JobFields {
  const fields = {
    jobId: null,
    requestIds: null,
    attempts: job.attempts,
    notBefore: null,
    submittedAt: null,
    finishedAt: null,
  }
  switch (event.type) {
    case 'accepted':
      return {
        ...fields,
        state: 'submitted',
        reason: null,
        jobId: event.jobId,
        requestIds: event.requestIds,
        submittedAt: new Date(now),
      }
    case 'rejected':
      return { ...fields, state: 'rejected', reason: event.reason, finishedAt: new Date(now) }
    case 'unconfirmed':
      return { ...fields, state: 'in_doubt', reason: event.reason }
    case 'not_accepted': {
      if (event.countsAsAttempt && job.attempts >= limits.attempts)
        return {
          ...fields,
          state: 'rejected',
          reason: `${event.reason} (${job.attempts} tries)`,
          finishedAt: new Date(now),
        }
      return {
        ...fields,
        state: 'submitting',
        reason: event.reason,
        attempts: job.attempts + (event.countsAsAttempt ? 1 : 0),
        notBefore: new Date(now + backoffMs(job.attempts, event.retryAfterMs, random)),
      }
    }
  }
}

/** The statuses that end a job; a further delivery may follow within minutes. */
export type TerminalStatus = 'completed' | 'failed'

/** Whether a status ends its job. Any other, or none, may report progress. */
export const isTerminalStatus = (status: string | null): status is TerminalStatus =>
  status === 'completed' || status === 'failed'

/**
 * The state of a job after deliveries; null: unchanged.
 * @param status the terminal status, if one was delivered
 * @param unanswered members without a result
 */
export function afterDelivery(
  status: TerminalStatus | null,
  unanswered: number,
): { state: TerminalStatus | null; reason: string | null } {
  const missing = unanswered > 0 ? `${pluralize(unanswered, 'input')} without a result` : null
  // Once every input is answered the job is complete, whatever its status is called.
  if (status === null) return missing ? { state: null, reason: null } : { state: 'completed', reason: null }
  if (status === 'completed') return { state: 'completed', reason: missing }
  const word = 'the service reported the job as failed'
  return { state: 'failed', reason: missing ? `${word}; ${missing}` : word }
}

/** The longest time between two polls of a job, in milliseconds. */
const MAX_POLL_DELAY_MS = 15 * 60_000

/**
 * When a job is polled next: each time after twice as long. The last poll comes shortly before the
 * deadline, so that no job expires whose results can be fetched. Null: no further poll. Pure.
 * @param job.polls so far
 * @param firstMs from the submission to the first poll
 */
export function nextPollAt(
  job: { readonly polls: number; readonly submittedAt: Date; readonly deadlineAt: Date },
  { firstMs, retryAfterMs = null }: { readonly firstMs: number; readonly retryAfterMs?: number | null },
  now: number,
): Date | null {
  const deadline = job.deadlineAt.getTime()
  const last = deadline - Math.min(60_000, (deadline - job.submittedAt.getTime()) / 10)
  if (now >= last) return null
  const delayMs = Math.max(Math.min(firstMs * 2 ** job.polls, MAX_POLL_DELAY_MS), retryAfterMs ?? 0)
  return new Date(Math.min(now + delayMs, last))
}

/**
 * Whether a page of results may bring a job further, so that it is stored and the next one is fetched at once. An empty one does not, nor
 * one more than the job has inputs: a cursor that leads nowhere ends at the deadline, at growing intervals. Pure.
 * @param pages stored so far
 */
export const isUsefulPage = (
  { pages, size }: { readonly pages: number; readonly size: number },
  results: number,
): boolean => results > 0 && pages < size

/** The status of pages that nothing follows. Their number is not that of the inputs, so that their order proves nothing. */
export const INCOMPLETE_PAGES = 'incomplete pages'

/** Identifiers up to this length are stored unchanged: an index entry of Postgres holds about 2,700 bytes. */
const MAX_JOB_ID_LENGTH = 512

/**
 * The service's identifier of a job, as stored. One too long for an index is stored as its digest: it
 * still identifies the job, while rejecting it would lose the job's results.
 */
export function toJobId(value: unknown): string | null {
  const id = toIdentifier(value)
  return id === null || id.length <= MAX_JOB_ID_LENGTH ? id : `sha256:${hash('sha256', id)}`
}

/**
 *     partial (a page of results; with the last one they are one delivery)
 *     received ──▶ settled
 *        ├──▶ orphaned (signed, but for an unknown job; received again once the job is known)
 *        └──▶ quarantined (signed, but unreadable; kept unchanged, as in a dead letter queue)
 */
export const Delivery = {
  partial: 'partial',
  received: 'received',
  settled: 'settled',
  orphaned: 'orphaned',
  quarantined: 'quarantined',
} as const
export type DeliveryState = (typeof Delivery)[keyof typeof Delivery]
