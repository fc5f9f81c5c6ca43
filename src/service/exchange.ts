import type { Dispatcher } from 'undici'
import type { CallObserver } from './call.ts'

export type Headers = Record<string, string | string[] | undefined>

/** Why an exchange ended before its answer was complete. */
export type Breakage = { kind: 'timeout' | 'aborted' | 'connection' | 'too_large'; cause: unknown }

export type Exchanged = {
  /** Whether the request was written to a connection, in whole or in part, and so may have arrived. */
  sent: boolean
  /** The answer's head; null where none came. */
  head: { status: number; headers: Headers } | null
  /** The answer's body, as far as it came. */
  body: Buffer
  /** Null where the answer is complete. */
  broken: Breakage | null
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
  call?: CallObserver | undefined
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
): Promise<Exchanged> {
  return new Promise((resolve) => {
    const handler = new ExchangeHandler(options, resolve)
    if (handler.isOver) return
    try {
      pool.dispatch(request, handler)
    } catch (cause) {
      handler.end({ kind: 'connection', cause })
    }
  })
}

class ExchangeHandler implements Dispatcher.DispatchHandler {
  readonly #options: ExchangeOptions
  readonly #resolve: (exchanged: Exchanged) => void
  readonly #timer: NodeJS.Timeout
  readonly #onAbort: () => void
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | null = null
  #head: Exchanged['head'] = null
  #size = 0
  #isOver = false

  constructor(options: ExchangeOptions, resolve: (exchanged: Exchanged) => void) {
    this.#options = options
    this.#resolve = resolve
    const { signal, timeoutMs } = options
    this.#timer = setTimeout(() => this.end({ kind: 'timeout', cause: undefined }), timeoutMs)
    this.#onAbort = () => this.end({ kind: 'aborted', cause: signal?.reason })
    if (signal?.aborted === true) this.#onAbort()
    else signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get isOver(): boolean {
    return this.#isOver
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isOver) {
      controller.abort(new Error('the call ended before a connection was free'))
      return
    }
    const isFirst = this.#controller === null
    this.#controller = controller
    if (isFirst) this.#options.call?.sent(Date.now())
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200 || this.#isOver) return
    this.#head = { status, headers }
    this.#options.call?.answered({ status, headers, at: Date.now() })
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
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
  end(broken: Breakage | null): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#options.signal?.removeEventListener('abort', this.#onAbort)
    const sent = this.#controller !== null
    if (broken !== null) {
      if (sent && this.#head === null) this.#options.call?.lost(Date.now())
      this.#controller?.abort(new Error(`the exchange ended: ${broken.kind}`))
    }
    const [first] = this.#chunks
    const body = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks)
    this.#resolve({ sent, head: this.#head, body, broken })
  }
}

/** undici's own timers, should one fire before the exchange's. */
const isTimeout = (cause: Error): boolean =>
  'code' in cause && (cause.code === 'UND_ERR_HEADERS_TIMEOUT' || cause.code === 'UND_ERR_BODY_TIMEOUT')
