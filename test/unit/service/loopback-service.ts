import { createServer } from 'node:net'
import { onTestFinished } from 'vitest'
import type { RequestObserver } from '../../../src/service/exchange.ts'
import { EnrichmentClient } from '../../../src/service/client.ts'
import type { TransportOptions } from '../../../src/service/transport.ts'
import { type Answer, listenOnLoopback, type ReceivedRequest, startLoopback } from '../../support/loopback.ts'

export type Service = { baseUrl: string; received: readonly ReceivedRequest[] }

/** A service with the given listener, on its own port until the end of the test. */
export async function serve(answer: Answer, listen: { port?: number } = {}): Promise<Service> {
  const { url, received, close } = await startLoopback(answer, listen.port)
  onTestFinished(close)
  return { baseUrl: url, received }
}

/** Bytes in place of a response, and what becomes of the connection then. Default: it stays open for the next request. */
export type RawAnswer = { bytes: string | Buffer; end?: 'close' | 'hang' }

/** Any status from 100 to 599: Node's own server sends none below 200. */
export function rawStatus(
  status: number,
  { body = '', headers = {} }: { body?: string; headers?: Record<string, string> } = {},
): RawAnswer {
  const isFinal = status >= 200
  const hasBody = isFinal && status !== 204 && status !== 304
  const lines = Object.entries({
    ...headers,
    ...(hasBody && { 'content-length': String(Buffer.byteLength(body)) }),
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return {
    bytes: `HTTP/1.1 ${status} Some\r\n${lines.join('')}\r\n${hasBody ? body : ''}`,
    ...(!isFinal && { end: 'close' }),
  }
}

/** A service that answers with bytes, on its own port until the end of the test. */
export async function serveRaw(answer: (request: { path: string; body: string }) => RawAnswer): Promise<{
  baseUrl: string
}> {
  const server = createServer((socket) => {
    socket.setNoDelay()
    let text = ''
    socket.on('error', () => {})
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const size = Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
        if (text.length < end + 4 + size) return
        const { bytes, end: connection } = answer({
          path: text.split(' ')[1] ?? '',
          body: text.slice(end + 4, end + 4 + size),
        })
        text = text.slice(end + 4 + size)
        socket.write(bytes)
        if (connection === 'close') socket.destroySoon()
      }
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { baseUrl: url }
}

/** A service with one response to everything. */
export const serveAlways = (
  status: number,
  body: unknown = '',
  headers: Record<string, string | string[]> = {},
): Promise<Service> =>
  serve((_, response) => {
    const raw = typeof body === 'string' || Buffer.isBuffer(body)
    response.writeHead(status, raw ? headers : { 'content-type': 'application/json', ...headers })
    response.end(raw ? body : JSON.stringify(body))
  })

/** A client of the service, closed at the end of the test. */
export function clientOf(
  service: { baseUrl: string },
  options: Partial<TransportOptions> = {},
): EnrichmentClient {
  const client = new EnrichmentClient({ baseUrl: service.baseUrl, apiKey: 'key-of-the-test', ...options })
  onTestFinished(() => client.close())
  return client
}

/** Records the notifications of an observer, in order. */
export function recordingObserver(): RequestObserver & { events: string[] } {
  const events: string[] = []
  return {
    events,
    sent: () => events.push('sent'),
    answered: ({ status }) => events.push(`answered ${status}`),
    lost: () => events.push('lost'),
  }
}

/** The error that a promise rejects with; fails the test for anything else. */
export async function rejection<E extends Error>(
  promise: Promise<unknown>,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  try {
    await promise
  } catch (error) {
    if (error instanceof kind) return error
    throw new Error(`expected a ${kind.name}, got ${String(error)}`, { cause: error })
  }
  throw new Error(`expected a ${kind.name}, but nothing was thrown`)
}
