import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { RequestObserver } from '../../../src/service/exchange.ts'
import { type ClientOptions, EnrichmentClient } from '../../../src/service/client.ts'

export type Heard = {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
  socket: Socket
}

export type Service = { baseUrl: string; heard: Heard[] }

/** A service that answers as the test says, on a port of its own until the test is over. */
export async function serve(
  answer: (request: Heard, response: ServerResponse) => void,
  listen: { port?: number } = {},
): Promise<Service> {
  const heard: Heard[] = []
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers, socket } = request
      const all = { method, url, headers, body: Buffer.concat(chunks).toString(), socket }
      heard.push(all)
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
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard }
}

/** A service that gives one answer to everything. */
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

/** A client of the service, closed when the test is over. */
export function clientOf(
  service: { baseUrl: string },
  options: Partial<ClientOptions> = {},
): EnrichmentClient {
  const client = new EnrichmentClient({ baseUrl: service.baseUrl, apiKey: 'key-of-the-test', ...options })
  onTestFinished(() => client.close())
  return client
}

/** Writes down what an observer is told, in order. */
export function recordingCall(): RequestObserver & { told: string[] } {
  const told: string[] = []
  return {
    told,
    sent: () => told.push('sent'),
    answered: ({ status }) => told.push(`answered ${status}`),
    lost: () => told.push('lost'),
  }
}

/** The error that a promise rejects with; fails the test when it does not reject, or with something else. */
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
