import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface Listening {
  readonly url: string
  readonly port: number
  /** Stops listening, and closes what is open. */
  close(): Promise<void>
}

/** Lets a server listen on a loopback port of its own, or on the given one. */
export async function listenOnLoopback(server: Server, atPort = 0): Promise<Listening> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(atPort, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

export interface ReceivedRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly socket: Socket
}

export type Answer = (request: ReceivedRequest, response: ServerResponse) => void

export interface LoopbackService extends Listening {
  /** Every request so far, in order. */
  readonly received: readonly ReceivedRequest[]
}

/** Starts an HTTP server that answers each request when it has come in whole. */
export async function startLoopback(answer: Answer, atPort = 0): Promise<LoopbackService> {
  const received: ReceivedRequest[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers, socket } = request
      const all = { method, url, headers, body: Buffer.concat(chunks).toString(), socket }
      received.push(all)
      answer(all, response)
    })
  })
  return { ...(await listenOnLoopback(server, atPort)), received }
}

/** Answers with a JSON text. */
export function answerJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}
