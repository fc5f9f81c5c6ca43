import { FillrateError } from '../util/error-text.ts'

/**
 * What to do about a failed call:
 * - `reject`: the input is at fault; request it again only when it changes
 * - `retry`: the service is at fault; retry with backoff, a bounded number of times
 * - `release`: neither is at fault; retry later without counting an attempt
 * - `abort_run`: every further call would fail in the same way until a setting is changed
 */
type ErrorAction = 'reject' | 'retry' | 'release' | 'abort_run'

/** Facts that every `ServiceError` carries. */
export type ErrorDetails = {
  /** `POST /v1/person/enrich`: method and path without prefix, query or input. */
  endpoint: string
  status?: number | null
  retryAfterMs?: number | null
  maybeSent?: boolean
  cause?: unknown
  /** The beginning of the response body. */
  detail?: string
}

/**
 * A call that returned no usable response. Neither the message nor any enumerable property holds the key, the input
 * or the response: `detail` is not enumerable, so that loggers do not print it.
 */
export abstract class ServiceError extends FillrateError {
  abstract readonly action: ErrorAction
  readonly endpoint: string
  /** The HTTP status; null if there was no response. */
  readonly status: number | null
  /** The `Retry-After` of the response, in milliseconds; null if it had none. */
  readonly retryAfterMs: number | null
  /** Whether the request may have reached the service, and so may have been processed and billed. */
  readonly maybeSent: boolean
  /** The first 500 characters of the response body; may hold personal data. */
  declare readonly detail: string

  constructor(message: string, details: ErrorDetails) {
    super(
      `${details.endpoint}: ${message}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    )
    this.name = new.target.name
    this.endpoint = details.endpoint
    this.status = details.status ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
    this.maybeSent = details.maybeSent ?? true
    Object.defineProperty(this, 'detail', { value: (details.detail ?? '').slice(0, 500), enumerable: false })
  }
}

/** 400: the service cannot read the request. */
export class BadRequestError extends ServiceError {
  readonly action = 'reject'
}

/** 422: the service reads the request but does not accept this input. */
export class UnprocessableError extends ServiceError {
  readonly action = 'reject'
  /** What the lookup cost all the same, if the service says it. */
  readonly credits: number | null

  constructor(message: string, details: ErrorDetails & { readonly credits?: number | null }) {
    super(message, details)
    this.credits = details.credits ?? null
  }
}

/** 401, or 403 for several inputs: the service does not accept the key. Or its token endpoint does not: nothing was sent then. */
export class UnauthorizedError extends ServiceError {
  readonly action = 'abort_run'
  /** The fingerprint of the key; no secret. */
  readonly keyId: string
  /** What rejected it, in a few words: `HTTP 401`. Null: it was rejected before. */
  readonly reason: string | null

  constructor(message: string, details: ErrorDetails & { keyId: string; reason?: string | null }) {
    super(message, details)
    this.keyId = details.keyId
    this.reason = details.reason ?? null
  }
}

/**
 * 403 that is not a rate limit and not yet attributable to the key or the input. Once several inputs in a row get it, the
 * key counts as rejected (`UnauthorizedError`).
 */
export class ForbiddenError extends ServiceError {
  readonly action = 'retry'
}

/** 403 for this input only: others are accepted. */
export class InputForbiddenError extends ServiceError {
  readonly action = 'reject'
}

/** Not sent: a rejected key is being tried again, one call at a time. */
export class KeyOnTrialError extends ServiceError {
  readonly action = 'release'

  constructor(endpoint: string) {
    super('not sent: another call is checking whether the service accepts the key again', {
      endpoint,
      maybeSent: false,
      retryAfterMs: 1_000,
    })
  }
}

/** 401 for an access token that had ended: the next call has a new one. */
export class TokenEndedError extends ServiceError {
  readonly action = 'release'
}

/** Not sent: the token endpoint issues no token at the moment. */
export class TokenUnavailableError extends ServiceError {
  readonly action = 'retry'
  /** In a few words: `token endpoint auth.example.com: HTTP 503`. */
  readonly reason: string
  /** Nothing has answered. */
  readonly isUnreachable: boolean

  constructor(message: string, details: ErrorDetails & { reason: string; isUnreachable: boolean }) {
    super(message, { ...details, maybeSent: false })
    this.reason = details.reason
    this.isUnreachable = details.isUnreachable
  }
}

/** 429, or a 403 that reports a rate limit. */
export class RateLimitedError extends ServiceError {
  readonly action = 'release'
}

/** The account has no credits left. The breaker then lets a call through once an hour. */
export class OutOfCreditsError extends ServiceError {
  readonly action = 'abort_run'
}

/** 500, and every other 5xx except 503. */
export class ServerError extends ServiceError {
  readonly action = 'retry'
}

/** 503: the service is temporarily unavailable. */
export class UnavailableError extends ServiceError {
  readonly action = 'retry'
}

/** The exchange exceeded the timeout. */
export class TimeoutError extends ServiceError {
  readonly action = 'retry'
}

/** No connection, or a connection lost before the response was complete. */
export class ConnectionError extends ServiceError {
  readonly action = 'retry'
  /** The same for all calls that fail in this way, such as `could not connect to api.example.com (ECONNREFUSED)`. */
  readonly reason: string

  constructor(message: string, details: ErrorDetails & { reason?: string }) {
    super(message, details)
    this.reason = details.reason ?? 'connection'
  }
}

/** Ended by the caller's AbortSignal; its reason is the `cause`. */
export class AbortedError extends ServiceError {
  readonly action = 'release'
}

/** A success status with an unusable body. It ends the run once the description is at fault: several inputs got it, and none was read. */
export class MalformedResponseError extends ServiceError {
  readonly action: 'retry' | 'abort_run'
  /** The first 64 KiB of the body, for inspection, or all of what the service's own reader fails on; may hold personal data. */
  declare readonly body: Buffer

  constructor(
    message: string,
    details: ErrorDetails & { body: Buffer; isKept?: boolean; action?: MalformedResponseError['action'] },
  ) {
    super(message, details)
    this.action = details.action ?? 'retry'
    const value = details.isKept === true ? details.body : details.body.subarray(0, 64 * 1024)
    Object.defineProperty(this, 'body', { value, enumerable: false })
  }

  /** The same where it ends the run. @param isAt what is at fault, and what to do */
  asProof(isAt: string): MalformedResponseError {
    const { endpoint, status, detail, body, message } = this
    const details = { endpoint, status, detail, body, isKept: true, cause: this }
    const text = `${message.slice(endpoint.length + 2)}; ${isAt}`
    return new MalformedResponseError(text, { ...details, action: 'abort_run' })
  }
}

/** Not sent: the results of a job name none of its inputs, as no results of the service ever did. They are paid for, and kept. */
export class UnreadResultsError extends ServiceError {
  readonly action = 'abort_run'

  /** @param job our key of it */
  constructor(job: string, service: string) {
    super(
      `those of job ${job} name none of its inputs, as none of ${service} ever did. They are kept, and nothing more is paid for. Correct how the description reads results (\`bulk\`, \`poll\`, \`webhook\`): the next run reads them again. \`fillrate cancel --job ${job}\` gives them up, and its inputs are requested singly`,
      { endpoint: 'results of jobs', maybeSent: false },
    )
  }
}

/** A status that the interface does not define for this endpoint. */
export class UnexpectedStatusError extends ServiceError {
  readonly action: 'retry' | 'reject' | 'abort_run'
  /** The action where the endpoint answers other inputs. */
  readonly ofInput: 'retry' | 'reject'

  constructor(
    message: string,
    details: ErrorDetails & { action: UnexpectedStatusError['action']; ofInput?: 'retry' | 'reject' },
  ) {
    super(message, details)
    this.action = details.action
    this.ofInput = details.ofInput ?? 'retry'
  }

  /** The same answer where it does not stop the run. */
  withAction(action: 'retry' | 'reject'): UnexpectedStatusError {
    const { endpoint, status, retryAfterMs, detail } = this
    const details = { endpoint, status, retryAfterMs, detail, action, cause: this }
    return new UnexpectedStatusError(`unexpected status (${status ?? 'none'})`, details)
  }
}

/** Not sent: the circuit breaker is open after too many consecutive failures. */
export class CircuitOpenError extends ServiceError {
  readonly action = 'release'
}
