import { hash } from 'node:crypto'
import { backoffMs } from './backoff.ts'
import { toIdentifier } from './json.ts'

/**
 *     submitting ──202──▶ submitted ──delivery──▶ completed | failed
 *         │ │                 └──────deadline───▶ expired
 *         │ └─ no answer, a gateway's, a crash ─▶ in_doubt ──delivery──▶ completed | failed; deadline ─▶ expired
 *         └─ 400, 401, 422 ─▶ rejected
 *
 * A delivery is accepted in every state. A job in doubt is never sent again. A status that is not terminal ends
 * nothing. A job that is over keeps its inputs without a result for some minutes, for a further delivery.
 */
export const Job = {
  submitting: 'submitting',
  submitted: 'submitted',
  completed: 'completed',
  failed: 'failed',
  inDoubt: 'in_doubt',
  rejected: 'rejected',
  expired: 'expired',
} as const
export type JobState = (typeof Job)[keyof typeof Job]

/** The most email addresses of one bulk call (service interface, E4). */
export const JOB_SIZE = 100

/** How a submission ended. */
export type SubmitEvent =
  | { readonly type: 'accepted'; readonly jobId: string | null; readonly requestIds: unknown }
  /** The service will not have it: 400, 401, 422. Its members are asked singly. */
  | { readonly type: 'rejected'; readonly reason: string }
  /**
   * Not taken, as far as the service's interface says: 429, 500, 503, a refused connection. The same job is posted
   * again.
   */
  | {
      readonly type: 'not_accepted'
      readonly reason: string
      readonly retryAfterMs: number | null
      readonly countsAsAttempt: boolean
      /** A 500 may come after the work was done: its members count as in doubt. */
      readonly mayBeBilled: boolean
    }
  /** It may have arrived: a time-out, a lost connection, a gateway's 502 or 504. */
  | { readonly type: 'unconfirmed'; readonly reason: string }

export interface JobFields {
  readonly state: JobState
  readonly reason: string | null
  readonly jobId: string | null
  readonly requestIds: unknown
  readonly attempt: number
  readonly notBefore: Date | null
  readonly submittedAt: Date | null
  readonly finishedAt: Date | null
}

/** What becomes of a job that was being submitted. */
export function afterSubmit(
  job: { readonly attempt: number },
  event: SubmitEvent,
  limits: { readonly attempts: number },
  now: number,
  random: number,
): JobFields {
  const fields = {
    jobId: null,
    requestIds: null,
    attempt: job.attempt,
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
      if (event.countsAsAttempt && job.attempt >= limits.attempts)
        return {
          ...fields,
          state: 'rejected',
          reason: `${event.reason} (${job.attempt} tries)`,
          finishedAt: new Date(now),
        }
      return {
        ...fields,
        state: 'submitting',
        reason: event.reason,
        attempt: job.attempt + (event.countsAsAttempt ? 1 : 0),
        notBefore: new Date(now + backoffMs(job.attempt, event.retryAfterMs, random)),
      }
    }
  }
}

/** The statuses after which nothing more is to come, but for a further delivery within minutes. */
export type TerminalStatus = 'completed' | 'failed'

/** Whether a status ends its job. Any other, and none at all, may be word of progress. */
export const isTerminalStatus = (status: string | null): status is TerminalStatus =>
  status === 'completed' || status === 'failed'

/**
 * What deliveries make of their job.
 * @param status the terminal status, where one was delivered
 * @param unanswered members that still wait for a result
 */
export function afterDelivery(
  status: TerminalStatus | null,
  unanswered: number,
): { state: TerminalStatus | null; reason: string | null } {
  const missing = unanswered > 0 ? `${unanswered} inputs without a result` : null
  // With every input answered nothing is left to wait for, whatever the status is called.
  if (status === null) return missing ? { state: null, reason: null } : { state: 'completed', reason: null }
  if (status === 'completed') return { state: 'completed', reason: missing }
  const word = 'the service reported the job as failed'
  return { state: 'failed', reason: missing ? `${word}; ${missing}` : word }
}

/** The longest identifier that is kept as it is: an index of Postgres holds no entry of more than 2,700 bytes. */
const MAX_JOB_ID_LENGTH = 512

/**
 * The service's identifier of a job, as it is kept. One that no index could hold is kept as its digest: it still
 * identifies the job, where a refusal would lose the job's results.
 */
export function toJobId(value: unknown): string | null {
  const id = toIdentifier(value)
  return id === null || id.length <= MAX_JOB_ID_LENGTH ? id : `sha256:${hash('sha256', id)}`
}

/**
 *     received ──▶ settled
 *        ├──▶ orphaned (signed, but for no known job; received again when its job becomes known)
 *        └──▶ quarantined (signed, but unreadable; kept whole)
 */
export const Delivery = {
  received: 'received',
  settled: 'settled',
  orphaned: 'orphaned',
  quarantined: 'quarantined',
} as const
export type DeliveryState = (typeof Delivery)[keyof typeof Delivery]
