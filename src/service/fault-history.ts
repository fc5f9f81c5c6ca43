import type { CircuitSnapshot } from '../domain/rate-status.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'
import {
  ConnectionError,
  MalformedResponseError,
  type ServiceError,
  TimeoutError,
  TokenUnavailableError,
} from './errors.ts'

/** The attempts of one lookup, after its call failed. */
export interface AttemptCounts {
  /** Failed calls attributed to the input; stored with the lookup. */
  readonly attempts: number
  /** All failed calls, also where the service may be at fault. */
  readonly tries: number
}

/** The lookup or job that a call is about. */
export interface CallSubject {
  readonly id: number | string
  /** As stored; 0 for a job, whose attempts do not tell whose fault they were. */
  readonly attempts: number
  /** What identifies the input, or `bulk` or `companyBulk`: each has an endpoint of its own. */
  readonly kind?: string
}

/** Faults since the last response. `stored` of them are already part of the stored attempts. */
interface UnattributedFaults {
  faults: number
  stored: number
}

/** Bounds the memory; a subject beyond it costs one more attempt. */
const MAX_SUBJECTS = 50_000

/**
 * Attributes faults to the service or to an input. A fault counts as the service's until the service responds to
 * another call; then it was the input's. So an outage counts against no input, and an input that always fails is not
 * mistaken for an outage. An attempt is not stored before that: once the circuit opens, another process may hold the lookup.
 */
export class FaultHistory {
  /** Calls that the service has responded to. */
  #responses = 0
  #unattributed = new Map<CallSubject['id'], UnattributedFaults>()
  /** Calls that got an answer, and calls that the limit refused. */
  #answers = 0
  #refusals = 0
  /** Of each subject that the limit has refused, how many there were of both at that time. */
  readonly #refused = new Map<CallSubject['id'], { readonly answers: number; readonly refusals: number }>()
  /** Attributed faults not yet stored; stored with the next result of their subject. */
  readonly #attributed = new Map<CallSubject['id'], number>()

  /** @returns a mark to pass to `recordFault` if this call fails */
  startCall(): number {
    return this.#responses
  }

  /**
   * @param answered the subject, if the response is final for it; after a 429 or a 403 its earlier faults still count
   * @param wasDown the circuit was open: what failed before this response was the service's fault
   */
  recordResponse(answered: CallSubject | undefined, wasDown: boolean): void {
    this.#responses++
    if (!wasDown)
      for (const [id, { faults, stored }] of this.#unattributed)
        if (faults > stored && this.#attributed.size < MAX_SUBJECTS)
          this.#attributed.set(id, (this.#attributed.get(id) ?? 0) + faults - stored)
    if (this.#unattributed.size > 0) this.#unattributed = new Map()
    if (answered === undefined) return
    this.#answers++
    this.#refused.delete(answered.id)
    this.#attributed.delete(answered.id)
  }

  /**
   * The limit has refused a call. It is the input's fault if it was refused before and more other calls were
   * answered since than refused: otherwise an input that is always refused would be called for ever. It stays the
   * input's fault until more others are refused than answered, because the last input has no other beside it.
   */
  judgeRefusal({ id }: CallSubject): 'limit' | 'again' | 'input' {
    const before = this.#refused.get(id)
    const [answers, refusals] = [this.#answers, this.#refusals++]
    if (before !== undefined && answers - before.answers > refusals - before.refusals) return 'input'
    if (before !== undefined || this.#refused.size < MAX_SUBJECTS)
      this.#refused.set(id, { answers, refusals: this.#refusals })
    return before === undefined ? 'limit' : 'again'
  }

  /**
   * @param startMark the result of `startCall` for this call
   * @returns whether the fault counts against the service: not if the service responded to other calls meanwhile, or if
   * the same input failed before while others succeeded
   */
  recordFault(subject: CallSubject | undefined, startMark: number): boolean {
    let isSuspect = false
    if (subject !== undefined) {
      const own = this.#unattributed.get(subject.id) ?? { faults: 0, stored: 0 }
      isSuspect = subject.attempts - own.stored + (this.#attributed.get(subject.id) ?? 0) > 0
      own.faults++
      if (this.#unattributed.size < MAX_SUBJECTS) this.#unattributed.set(subject.id, own)
    }
    return !isSuspect && this.#responses === startMark
  }

  /**
   * The attempts to store with a lookup whose call has failed.
   * @param isCounted counts this call regardless of whose fault it was, because it may have been billed
   */
  countAttempts(subject: CallSubject, isCounted: boolean): AttemptCounts {
    const own = this.#unattributed.get(subject.id)
    const attributed = subject.attempts + (this.#attributed.get(subject.id) ?? 0)
    this.#attributed.delete(subject.id)
    if (own === undefined) return { attempts: attributed + (isCounted ? 1 : 0), tries: attributed + 1 }
    const tries = attributed + own.faults - own.stored
    if (!isCounted) return { attempts: attributed, tries }
    own.stored = own.faults
    return { attempts: tries, tries }
  }
}

export type FaultSummary = Pick<CircuitSnapshot, 'reason' | 'cause'>

/** A fault in a few words, without what differs from call to call. */
export function summarizeFault(error: ServiceError): FaultSummary {
  if (error instanceof TokenUnavailableError)
    return { reason: error.reason, cause: error.isUnreachable ? 'unreachable' : 'failing' }
  if (error instanceof ConnectionError) {
    const code = networkErrorCode(error.cause)
    return { reason: networkErrorMeaning(code) ?? code ?? 'connection lost', cause: 'unreachable' }
  }
  if (error instanceof TimeoutError) return { reason: 'no response in time', cause: 'unreachable' }
  if (error instanceof MalformedResponseError)
    return { reason: `HTTP ${error.status} without a record`, cause: 'failing' }
  return { reason: `HTTP ${error.status}`, cause: 'failing' }
}
