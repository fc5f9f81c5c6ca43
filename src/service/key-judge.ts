import type { ApiKey, KeyRing } from './api-keys.ts'
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

/** The service, or with status null its token endpoint, rejected a key; `usableKeys` are left. */
export type KeyRejection = {
  keyId: string
  status: number | null
  nextKeyId: string | null
  usableKeys: number
}

interface KeyJudgeOptions {
  /** Called each time a key is rejected. */
  readonly onReject: (key: ApiKey) => void
  /** Called once for each key that the service rejects, until it is accepted again. */
  readonly onKeyRejected?: ((rejection: KeyRejection) => void) | undefined
  /** Called once when the service accepts a rejected key again. */
  readonly onKeyAccepted?: ((keyId: string) => void) | undefined
}

/** Decides by the answers which keys are accepted and which are rejected. */
export class KeyJudge {
  readonly #keys: KeyRing
  readonly #options: KeyJudgeOptions
  readonly #forbidden = new ForbiddenClassifier()
  /** Keys whose rejection was reported, and when each was rejected last, by `performance.now()`: what was sent before shows what was. */
  readonly #reportedRejections = new Map<ApiKey, number>()

  constructor(keys: KeyRing, options: KeyJudgeOptions) {
    this.#keys = keys
    this.#options = options
  }

  /** @returns a mark to pass to `forbid` if this call gets a 403 */
  startCall(): number {
    return this.#forbidden.startCall()
  }

  /** A call was rejected by the rate limit. */
  recordRateLimited(): void {
    this.#forbidden.recordRateLimited(performance.now())
  }

  accept(key: ApiKey, sentAt: number): void {
    this.#forbidden.recordAccepted(sentAt)
    const rejectedAt = this.#reportedRejections.get(key)
    if (rejectedAt !== undefined && sentAt < rejectedAt) return
    this.#keys.accept()
    if (this.#reportedRejections.delete(key)) this.#options.onKeyAccepted?.(key.id)
  }

  /** What a 403 means depends on the responses to other inputs. */
  forbid(
    key: ApiKey,
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
    if (meaning === 'key' || this.#keys.isOnTrial) return this.reject(key, details, null, response.isHtml)
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
    key: ApiKey,
    details: ErrorDetails & { readonly status: number | null },
    byTokenEndpoint: string | null = null,
    isPage = false,
  ): UnauthorizedError {
    const { status } = details
    const { isFirst } = this.#keys.reject(key)
    this.#options.onReject(key)
    const hasNextKey = !this.#keys.allRejected
    const nextKeyId = hasNextKey ? this.#keys.current.id : null
    if (isFirst) this.#forbidden.resetForKey()
    const isReported = this.#reportedRejections.has(key)
    this.#reportedRejections.set(key, performance.now())
    if (isFirst && !isReported)
      this.#options.onKeyRejected?.({ keyId: key.id, status, nextKeyId, usableKeys: this.#keys.usableCount })
    const page =
      ' with a page in HTML: a firewall or a proxy in front of the service blocks the key, or the address of this machine'
    const reason = byTokenEndpoint ?? `HTTP ${status}${isPage ? page : ''}`
    const what =
      byTokenEndpoint !== null
        ? `not sent: no access token for the client ${key.id} (${byTokenEndpoint})`
        : status === 401
          ? `the service rejected the API key ${key.id} (${reason})`
          : `the service does not permit the API key ${key.id} to do this (${reason})`
    const next = hasNextKey ? `; the next call uses key ${nextKeyId}` : ''
    return new UnauthorizedError(what + next, { ...details, reason, keyId: key.id, hasNextKey })
  }

  /** The error of a call that is not made, because every key is rejected. */
  rejectUnsent(endpoint: string, key: ApiKey): UnauthorizedError {
    const { count } = this.#keys
    return new UnauthorizedError(
      `not sent: the service has rejected ${count === 1 ? `the API key ${key.id}` : `all ${count} API keys`}`,
      { endpoint, keyId: key.id, hasNextKey: false, maybeSent: false },
    )
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

  /** The key changed, or is tried again: earlier responses are no evidence about it. */
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
