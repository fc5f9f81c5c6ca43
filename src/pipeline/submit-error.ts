import type { SubmitEvent } from '../domain/job.ts'
import { AbortedError, type ServiceError } from '../service/errors.ts'
import { describeFailure } from './look-up/call-service.ts'

/** Statuses by which the service itself says that it did not accept the job; its interface says to retry them. */
const NOT_ACCEPTED_STATUSES: ReadonlySet<number> = new Set([403, 429, 500, 503])

/**
 * Classifies a failed submission. If it may have been accepted, it is in doubt and never sent again: a gateway's 502
 * or 504 may come after the job was forwarded. Pure.
 * @param isDown the circuit is open: an outage uses up no attempts
 */
export function classifySubmitError(error: ServiceError, isDown = false): SubmitEvent {
  const reason = describeFailure(error)
  const { retryAfterMs, status } = error
  const mayBeAccepted = status === null ? error.maybeSent : !NOT_ACCEPTED_STATUSES.has(status)
  const mayBeBilled = status === 500
  switch (error.action) {
    case 'reject':
    case 'abort_run':
      // A success that cannot be read is paid.
      return { type: status !== null && status < 300 ? 'unconfirmed' : 'rejected', reason }
    case 'rotate_key':
      return { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: false, mayBeBilled }
    case 'release':
      return error instanceof AbortedError && mayBeAccepted
        ? { type: 'unconfirmed', reason }
        : { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: false, mayBeBilled }
    case 'retry':
      return mayBeAccepted
        ? { type: 'unconfirmed', reason }
        : { type: 'not_accepted', reason, retryAfterMs, countsAsAttempt: !isDown, mayBeBilled }
  }
}
