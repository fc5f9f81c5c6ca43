import type { ApiKey } from './api-keys.ts'
import {
  type ErrorDetails,
  ForbiddenError,
  InputForbiddenError,
  RateLimitedError,
  type ServiceError,
  UnauthorizedError,
} from './errors.ts'
import type { HttpExchange } from './exchange.ts'
import { InputsInARow } from './inputs-in-a-row.ts'
import { type ErrorContext, toErrorDetails, isHtml } from './response-errors.ts'

/** Decides by the answers whether the key is accepted or rejected. */
export class KeyJudge {
  readonly #key: ApiKey
  readonly #onReject: () => void
  readonly #forbidden = new ForbiddenClassifier()
  /** When the key was rejected last, by `performance.now()`: what was sent before shows what was. Null: it was accepted since. */
  #rejectedAt: number | null = null

  /** @param onReject called each time the key is rejected */
  constructor(key: ApiKey, onReject: () => void) {
    this.#key = key
    this.#onReject = onReject
  }

  /** @returns a mark to pass to `forbid` if this call gets a 403 */
  startCall(): number {
    return this.#forbidden.startCall()
  }

  /** A call was rejected by the rate limit. */
  recordRateLimited(): void {
    this.#forbidden.recordRateLimited(performance.now())
  }

  accept(sentAt: number): void {
    this.#forbidden.recordAccepted(sentAt)
    if (this.#rejectedAt !== null && sentAt < this.#rejectedAt) return
    this.#key.accept()
    this.#rejectedAt = null
  }

  /** What a 403 means depends on the responses to other inputs. */
  forbid(
    { completed, context }: { readonly completed: HttpExchange; readonly context: ErrorContext },
    { input, startMark }: { readonly input: string; readonly startMark: number },
  ): ServiceError {
    const { head, body } = completed
    const response = { startMark, isHtml: isHtml(head?.headers ?? {}, body), now: performance.now() }
    const meaning = this.#forbidden.classify(input, response)
    const details = toErrorDetails(completed, context)
    if (meaning === 'ban')
      return new RateLimitedError(
        'the service has temporarily banned the key for exceeding the rate limit (403 after 429)',
        details,
      )
    if (meaning === 'key' || this.#key.isOnTrial) return this.reject(details, null, response.isHtml)
    return meaning === 'input'
      ? new InputForbiddenError('the service, or a firewall in front of it, blocks this input (403)', details)
      : new ForbiddenError(
          'forbidden (403): other calls will show whether the input or the key is blocked',
          details,
        )
  }

  /**
   * @param byTokenEndpoint why it issues no token; null: the service itself rejected the key
   * @param isPage the answer is a page in HTML, which a firewall sends and no service
   */
  reject(
    details: ErrorDetails & { readonly status: number | null },
    byTokenEndpoint: string | null = null,
    isPage = false,
  ): UnauthorizedError {
    const { status } = details
    const { id } = this.#key
    if (this.#key.reject()) this.#forbidden.resetForKey()
    this.#onReject()
    this.#rejectedAt = performance.now()
    const page =
      ' with a page in HTML: a firewall or a proxy in front of the service blocks the key, or the address of this machine'
    const reason = byTokenEndpoint ?? `HTTP ${status}${isPage ? page : ''}`
    const what =
      byTokenEndpoint !== null
        ? `not sent: no access token for the client ${id} (${byTokenEndpoint})`
        : status === 401
          ? `the service rejected the API key ${id} (${reason})`
          : `the service does not permit the API key ${id} to do this (${reason})`
    return new UnauthorizedError(what, { ...details, reason, keyId: id })
  }

  /** The error of a call that is not made, because the key is rejected. */
  rejectUnsent(endpoint: string): UnauthorizedError {
    const { id } = this.#key
    return new UnauthorizedError(`not sent: the service has rejected the API key ${id}`, {
      endpoint,
      keyId: id,
      maybeSent: false,
    })
  }
}

/**
 * The cause of a 403:
 * - `input`: only this input is blocked
 * - `key`: the key is not permitted, whatever the input
 * - `ban`: a temporary ban for exceeding the rate limit
 * - `unknown`: undecidable until another call is answered
 */
type ForbiddenMeaning = 'input' | 'key' | 'ban' | 'unknown'

/** A 403 within this time of a 429, or of a 403 that the limiter takes for a ban, is one: the limiter knows when it is over. */
const BAN_AFTER_MS = 60_000

/** Bounds the memory. */
const MAX_INPUTS = 10_000

interface PreviousForbidden {
  readonly times: number
  readonly accepted: number
}

/**
 * Decides from the responses to other calls whether a 403 is about the key or about one input: a firewall that blocks
 * one address must not stop a run of thousands, and a locked key must not mark every input as rejected.
 */
export class ForbiddenClassifier {
  /** Responses that show that the key is accepted. */
  #acceptedCount = 0
  /** Since the key changed. */
  #row = new InputsInARow()
  readonly #previous = new Map<string, PreviousForbidden>()
  #limitedAt = Number.NEGATIVE_INFINITY

  /** @returns a mark to pass to `classify` if this call gets a 403 */
  startCall(): number {
    return this.#acceptedCount
  }

  /** @param sentAt an answer to a call that was sent after a 429 shows that the 429 brought no ban */
  recordAccepted(sentAt: number): void {
    if (sentAt > this.#limitedAt) this.#limitedAt = Number.NEGATIVE_INFINITY
    this.#acceptedCount++
    this.#row.answer()
  }

  /** A call was rejected by the rate limit. */
  recordRateLimited(now: number): void {
    this.#limitedAt = now
  }

  /** The key is tried again: earlier responses are no evidence about it. */
  resetForKey(): void {
    this.#row = new InputsInARow()
  }

  /**
   * @param input any text that is equal for equal inputs
   * @param response its `startMark` from `startCall`, and whether its body is an HTML page, as firewalls send it
   */
  classify(
    input: string,
    response: { readonly startMark: number; readonly isHtml: boolean; readonly now: number },
  ): ForbiddenMeaning {
    if (response.now - this.#limitedAt <= BAN_AFTER_MS) return 'ban'
    const before = this.#previous.get(input)
    const occurrences = (before?.times ?? 0) + 1
    // Other calls succeeded while this one was in flight.
    const isContradicted = this.#acceptedCount > response.startMark
    const othersPassed = before !== undefined && (isContradicted || this.#acceptedCount > before.accepted)
    if (othersPassed || (response.isHtml && occurrences > 1)) {
      this.#previous.delete(input)
      return 'input'
    }
    if (before !== undefined || this.#previous.size < MAX_INPUTS)
      this.#previous.set(input, { times: occurrences, accepted: this.#acceptedCount })
    if (!isContradicted) this.#row.add(input)
    return this.#row.isProof ? 'key' : 'unknown'
  }
}
