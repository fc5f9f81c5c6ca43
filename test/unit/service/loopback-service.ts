import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { RequestObserver } from '../../../src/service/exchange.ts'
import { type ClientOptions, EnrichmentClient } from '../../../src/service/client.ts'

export type ReceivedRequest = {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
  socket: Socket
}

export type Service = { baseUrl: string; received: ReceivedRequest[] }

/** A service with the given listener, on its own port until the end of the test. */
export async function serve(
  answer: (request: ReceivedRequest, response: ServerResponse) => void,
  listen: { port?: number } = {},
): Promise<Service> {
  const received: ReceivedRequest[] = []
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers, socket } = request
      const all = { method, url, headers, body: Buffer.concat(chunks).toString(), socket }
      received.push(all)
      answer(all, response)
    })
  }
  const server = createServer(listener).listen(listen.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
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
  options: Partial<ClientOptions> = {},
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
