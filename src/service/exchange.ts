import type { Dispatcher } from 'undici'
import type { AnswerHead, NormalizeHead } from '../domain/service/head.ts'

export type ResponseHeaders = Record<string, string | string[] | undefined>

/** Why an exchange ended before its response was complete. */
export type TransportFailure = { kind: 'timeout' | 'aborted' | 'connection' | 'too_large'; cause: unknown }

export type HttpExchange = {
  /** Whether any of the request was written to a connection, so that it may have arrived. */
  wasSent: boolean
  /** The head of the response; null if none arrived. */
  head: AnswerHead | null
  /** The body, as far as it arrived. */
  body: Buffer
  /** Null if the response is complete. */
  failure: TransportFailure | null
}

export type ExchangeRequest = {
  origin: string
  method: 'GET' | 'POST'
  path: string
  headers: string[]
  body: string | null
}

type ExchangeOptions = {
  /** Limit for the whole exchange, including the wait for a connection, in milliseconds. */
  timeoutMs: number
  /** The body is read up to this size, in bytes. */
  maxBodyBytes: number
  signal?: AbortSignal | undefined
  observer?: RequestObserver | undefined
  /** Puts a head into the usual terms before anything reads it. */
  normalizeHead?: NormalizeHead
}

/**
 * Sends one request over a connection pool. Never rejects: failures are part of the result. Uses `dispatch` instead of
 * `request`, because only `dispatch` reports when a request is written to a connection, which decides whether the call
 * may have been processed and billed.
 */
export function exchange(
  pool: Dispatcher,
  request: ExchangeRequest,
  options: ExchangeOptions,
): Promise<HttpExchange> {
  return new Promise((resolve) => {
    const handler = new ExchangeHandler(options, resolve)
    if (handler.isFinished) return
    try {
      pool.dispatch(request, handler)
    } catch (cause) {
      handler.end({ kind: 'connection', cause })
    }
  })
}

class ExchangeHandler implements Dispatcher.DispatchHandler {
  readonly #options: ExchangeOptions
  readonly #resolve: (completed: HttpExchange) => void
  readonly #timer: NodeJS.Timeout
  readonly #onAbort: () => void
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | null = null
  #head: HttpExchange['head'] = null
  #size = 0
  #isFinished = false

  constructor(options: ExchangeOptions, resolve: (completed: HttpExchange) => void) {
    this.#options = options
    this.#resolve = resolve
    const { signal, timeoutMs } = options
    this.#timer = setTimeout(() => this.end({ kind: 'timeout', cause: undefined }), timeoutMs)
    this.#onAbort = () => this.end({ kind: 'aborted', cause: signal?.reason })
    if (signal?.aborted === true) this.#onAbort()
    else signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isFinished) {
      controller.abort(new Error('the call ended before a connection was free'))
      return
    }
    const isFirst = this.#controller === null
    this.#controller = controller
    if (isFirst) this.#options.observer?.sent(Date.now())
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (status < 200 || this.#isFinished) return
    const at = Date.now()
    this.#head = this.#options.normalizeHead?.({ status, headers }) ?? { status, headers }
    this.#options.observer?.answered({ ...this.#head, at })
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isFinished) return
    this.#size += chunk.length
    if (this.#size > this.#options.maxBodyBytes) this.end({ kind: 'too_large', cause: undefined })
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    this.end(null)
  }

  onResponseError(_: Dispatcher.DispatchController, cause: Error): void {
    this.end({ kind: 'connection', cause })
  }

  /** Ends the exchange once; later events are ignored. */
  end(failure: TransportFailure | null): void {
    if (this.#isFinished) return
    this.#isFinished = true
    clearTimeout(this.#timer)
    this.#options.signal?.removeEventListener('abort', this.#onAbort)
    const wasSent = this.#controller !== null
    if (failure !== null) {
      if (wasSent && this.#head === null) this.#options.observer?.lost(Date.now())
      this.#controller?.abort(new Error(`the exchange ended: ${failure.kind}`))
    }
    const [first] = this.#chunks
    const body = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks)
    this.#resolve({ wasSent, head: this.#head, body, failure })
  }
}

/** The head of a response; header names are in lower case. */
export type ResponseHead = AnswerHead & {
  /** When the head arrived, in milliseconds since the epoch (`Date.now()`). */
  at: number
}

/**
 * Observes one call. The limiter implements it to count calls in flight. All times are milliseconds since the epoch
 * (`Date.now()`).
 *
 * `sent` is called when the request is about to be written to an open connection; waiting for a connection is not yet
 * a call that the service can count. Exactly one of `answered` and `lost` follows each `sent`. A call that ends without
 * `sent` (connection refused, unknown host, aborted while waiting) never reached the service and uses no quota.
 */
export interface RequestObserver {
  /**
   * How long the limiter pauses after a 403 that is a ban for exceeding the rate limit, in milliseconds; 0: it is none. A
   * ban is neither the key's nor the input's fault.
   */
  readonly banMs?: number
  sent(at: number): void
  /** The head of the response arrived; the body may follow. Not called for 1xx. */
  answered(head: ResponseHead): void
  /** No response will come (timeout, abort, lost connection). The service may have counted the call. */
  lost(at: number): void
}

/** Reports an answer to the limiter once its body is read, because the body may say more than the status. */
export class HeldAnswer implements RequestObserver {
  readonly #observer: RequestObserver | undefined
  #at = 0

  constructor(observer: RequestObserver | undefined) {
    this.#observer = observer
  }

  sent(at: number): void {
    this.#observer?.sent(at)
  }

  answered({ at }: ResponseHead): void {
    this.#at = at
  }

  lost(at: number): void {
    this.#observer?.lost(at)
  }

  release(head: HttpExchange['head']): void {
    if (head !== null) this.#observer?.answered({ ...head, at: this.#at })
  }
}
