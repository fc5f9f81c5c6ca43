import { backoffMs } from './backoff.ts'

/**
 *     submitting ──202──▶ submitted ──delivery──▶ completed | failed
 *         │ │                 └──────deadline───▶ expired
 *         │ └─ no answer, a crash ─▶ in_doubt ──delivery──▶ completed | failed; deadline ─▶ expired
 *         └─ 400, 401, 422 ─▶ rejected
 *
 * A delivery is accepted in every state. A job in doubt is never sent again.
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
  /** Certainly not taken: 429, 503, a refused connection. The same job is posted again. */
  | {
      readonly type: 'not_taken'
      readonly reason: string
      readonly retryAfterMs: number | null
      readonly counts: boolean
    }
  /** It may have arrived: a time-out, a lost connection, a 500. */
  | { readonly type: 'unknown'; readonly reason: string }

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
    case 'unknown':
      return { ...fields, state: 'in_doubt', reason: event.reason }
    case 'not_taken': {
      if (event.counts && job.attempt >= limits.attempts)
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
        attempt: job.attempt + (event.counts ? 1 : 0),
        notBefore: new Date(now + backoffMs(job.attempt, event.retryAfterMs, random)),
      }
    }
  }
}

/** What a delivery makes of its job: the service's word, or `failed` for a word that it does not document. */
export function afterDelivery(
  status: string,
  unanswered: number,
): { state: 'completed' | 'failed'; reason: string | null } {
  const missing = unanswered > 0 ? `${unanswered} inputs without a result, asked singly` : null
  if (status === 'completed') return { state: 'completed', reason: missing }
  const word =
    status === 'failed' ? 'the service reported the job as failed' : 'the service reported an unknown status'
  return { state: 'failed', reason: missing ? `${word}; ${missing}` : word }
}
