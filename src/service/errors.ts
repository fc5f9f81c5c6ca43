/**
 * What the caller should do about a failure (DESIGN section 9):
 * - `reject`: the input is at fault; ask again only when it changes
 * - `retry`: the service is; ask again later, with backoff, a bounded number of times
 * - `release`: nothing is at fault; ask again later, and do not count it as an attempt
 * - `rotate_key`: ask again at once, with a new permit: the client has moved to its next key
 * - `abort_run`: every further call would fail in the same way; somebody has to change a setting
 */
export type ErrorAction = 'reject' | 'retry' | 'release' | 'rotate_key' | 'abort_run'

export type ErrorDetails = {
  /** `POST /v1/person/enrich`: method and path without prefix, query or input. */
  endpoint: string
  status?: number | null
  retryAfterMs?: number | null
  maybeSent?: boolean
  cause?: unknown
  /** The beginning of the answer's body. */
  detail?: string
}

/**
 * A call that brought no answer of use. No message, and no property that a log would print, holds the key,
 * the input or the answer: `detail` is not enumerable, and only code that asks for it by name sees it.
 */
export abstract class ServiceError extends Error {
  abstract readonly action: ErrorAction
  readonly endpoint: string
  /** The HTTP status, null where there was no answer. */
  readonly status: number | null
  /** How long the service asks to wait, in milliseconds; null where it did not say. */
  readonly retryAfterMs: number | null
  /** Whether the request may have reached the service, and so may have been done and paid for. */
  readonly maybeSent: boolean
  /** The first few hundred characters of the answer's body; may hold personal data. */
  declare readonly detail: string

  constructor(message: string, facts: ErrorDetails) {
    super(`${facts.endpoint}: ${message}`, facts.cause === undefined ? undefined : { cause: facts.cause })
    this.name = new.target.name
    this.endpoint = facts.endpoint
    this.status = facts.status ?? null
    this.retryAfterMs = facts.retryAfterMs ?? null
    this.maybeSent = facts.maybeSent ?? true
    Object.defineProperty(this, 'detail', { value: (facts.detail ?? '').slice(0, 500), enumerable: false })
  }
}

/** 400: the service cannot read the request. */
export class BadRequestError extends ServiceError {
  readonly action = 'reject'
}

/** 422: the service can read the request and will not take this input. */
export class UnprocessableError extends ServiceError {
  readonly action = 'reject'
}

/** 401, or 403 to several inputs: the service does not accept the key. */
export class UnauthorizedError extends ServiceError {
  readonly action: 'rotate_key' | 'abort_run'
  /** Which key, by its name that is no secret. */
  readonly keyId: string
  /** Whether the client has moved to another key, which the next call will use. */
  readonly hasNextKey: boolean

  constructor(message: string, facts: ErrorDetails & { keyId: string; hasNextKey: boolean }) {
    super(message, facts)
    this.keyId = facts.keyId
    this.hasNextKey = facts.hasNextKey
    this.action = facts.hasNextKey ? 'rotate_key' : 'abort_run'
  }
}

/**
 * 403 that is no rate limit, of which it is not known yet whether it is meant for the key or for this input. Where
 * another input gets it too, the key is refused (UnauthorizedError).
 */
export class ForbiddenError extends ServiceError {
  readonly action = 'retry'
  /** How often this input got it. */
  readonly occurrences: number

  constructor(message: string, facts: ErrorDetails & { times: number }) {
    super(message, facts)
    this.occurrences = facts.times
  }
}

/** 403 for this input alone: others are let through. */
export class InputForbiddenError extends ServiceError {
  readonly action = 'reject'
}

/** Not sent: one call at a time tries a key that the service had refused. */
export class KeyOnTrialError extends ServiceError {
  readonly action = 'release'

  constructor(endpoint: string) {
    super('not sent: another call tries whether the service accepts the key again', {
      endpoint,
      maybeSent: false,
      retryAfterMs: 1_000,
    })
  }
}

/** 429, or a 403 that speaks of a limit. */
export class RateLimitedError extends ServiceError {
  readonly action = 'release'
}

/** 500 and every other 5xx but 503. */
export class ServerError extends ServiceError {
  readonly action = 'retry'
}

/** 503: the service says that it is unavailable for now. */
export class UnavailableError extends ServiceError {
  readonly action = 'retry'
}

/** The whole exchange took longer than allowed. */
export class TimeoutError extends ServiceError {
  readonly action = 'retry'
}

/** No connection, or one that was lost before the answer was complete. */
export class ConnectionError extends ServiceError {
  readonly action = 'retry'
}

/** The caller's AbortSignal ended the call; its reason is the `cause`. */
export class AbortedError extends ServiceError {
  readonly action = 'release'
}

/** A status of success with a body that is no answer. */
export class MalformedResponseError extends ServiceError {
  readonly action = 'retry'
  /** The body as it came, at most 64 KiB of it, for inspection; may hold personal data. */
  declare readonly body: Buffer

  constructor(message: string, facts: ErrorDetails & { body: Buffer }) {
    super(message, facts)
    Object.defineProperty(this, 'body', { value: facts.body.subarray(0, 64 * 1024), enumerable: false })
  }
}

/** A status that the interface does not name for this endpoint. */
export class UnexpectedStatusError extends ServiceError {
  readonly action: 'retry' | 'reject' | 'abort_run'

  constructor(message: string, facts: ErrorDetails & { remedy: 'retry' | 'reject' | 'abort_run' }) {
    super(message, facts)
    this.action = facts.remedy
  }
}

/** The circuit breaker did not let the call go: the service has failed too often in a row. */
export class CircuitOpenError extends ServiceError {
  readonly action = 'release'
}
