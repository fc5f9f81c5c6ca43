import type { Dispatcher } from 'undici'

export type ResponseHeaders = Record<string, string | string[] | undefined>

/** Why an exchange ended before its answer was complete. */
export type TransportFailure = { kind: 'timeout' | 'aborted' | 'connection' | 'too_large'; cause: unknown }

export type HttpExchange = {
  /** Whether the request was written to a connection, in whole or in part, and so may have arrived. */
  wasSent: boolean
  /** The answer's head; null where none came. */
  head: { status: number; headers: ResponseHeaders } | null
  /** The answer's body, as far as it came. */
  body: Buffer
  /** Null where the answer is complete. */
  failure: TransportFailure | null
}

export type ExchangeRequest = {
  origin: string
  method: 'GET' | 'POST'
  path: string
  headers: string[]
  body: string | null
}

export type ExchangeOptions = {
  /** For the whole exchange, waiting for a connection included, in milliseconds. */
  timeoutMs: number
  /** An answer's body is read this far, in bytes, and no further. */
  maxBodyBytes: number
  signal?: AbortSignal | undefined
  observer?: RequestObserver | undefined
}

/**
 * One request and its answer over a pool of connections. Never rejects: what came, and what went wrong, is the
 * value. Uses `dispatch` and not `request`, because only there is it told when a request is really written to
 * a connection, on which it depends whether it may have been done and paid for.
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
  readonly #resolve: (exchanged: HttpExchange) => void
  readonly #timer: NodeJS.Timeout
  readonly #onAbort: () => void
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | null = null
  #head: HttpExchange['head'] = null
  #size = 0
  #isFinished = false

  constructor(options: ExchangeOptions, resolve: (exchanged: HttpExchange) => void) {
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
    this.#head = { status, headers }
    this.#options.observer?.answered({ status, headers, at: Date.now() })
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
    this.end({ kind: isTimeout(cause) ? 'timeout' : 'connection', cause })
  }

  /** Ends the exchange once; whatever comes later is ignored. */
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

/** undici's own timers, should one fire before the exchange's. */
const isTimeout = (cause: Error): boolean =>
  'code' in cause && (cause.code === 'UND_ERR_HEADERS_TIMEOUT' || cause.code === 'UND_ERR_BODY_TIMEOUT')

/** The head of an answer, as it is told to an observer: header names in lower case. */
export type ResponseHead = {
  status: number
  headers: Record<string, string | string[] | undefined>
  /** When the head was in, in milliseconds since the epoch, by this machine's clock. */
  at: number
}

/**
 * Watches one call on its way to the service. The limiter implements it to count what is on the wire.
 * All times are milliseconds since the epoch by this machine's clock (`Date.now()`).
 *
 * `sent` comes when the request is about to be written to an open connection, not when it was asked for:
 * waiting for a connection is not yet a call that the service can count. Exactly one of `answered` and
 * `lost` follows each `sent`. A call that ends without `sent` (connection refused, unknown host, aborted
 * while it waited) never reached the service and costs nothing of the quota.
 */
export interface RequestObserver {
  /** Once answered with 403: it is a ban for the rate, so neither the key nor the input is at fault. */
  readonly isBan?: boolean
  sent(at: number): void
  /** The head of the answer is in; the body may still be on its way. Not told for 1xx. */
  answered(answer: ResponseHead): void
  /** No answer will come: time-out, abort or a lost connection. The service may have counted the call. */
  lost(at: number): void
}
