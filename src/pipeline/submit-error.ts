import type { SubmitEvent } from '../domain/job.ts'
import { statusFacts } from '../domain/service/status.ts'
import { AbortedError, type ServiceError } from '../service/errors.ts'
import { describeFailure } from './look-up/call-service.ts'

/**
 * Classifies a failed submission. If it may have been accepted, it is in doubt and never sent again: a gateway's 502
 * or 504 may come after the job was forwarded. Pure.
 * @param isDown the circuit is open: an outage uses up no attempts
 */
export function classifySubmitError(error: ServiceError, isDown = false): SubmitEvent {
  const reason = describeFailure(error)
  const { retryAfterMs, status } = error
  const done = status === null ? (error.maybeSent ? 'maybe' : 'no') : statusFacts(status).workDone
  const mayBeAccepted = done === 'yes' || done === 'maybe'
  const mayBeBilled = done === 'unlikely'
  switch (error.action) {
    case 'reject':
    case 'abort_run':
      // A success that cannot be read is paid.
      return { type: done === 'yes' ? 'unconfirmed' : 'rejected', reason }
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
