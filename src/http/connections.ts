import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** How long a connection stays open after its request was answered early, in milliseconds. */
const LINGER_MS = 2_000
/** How much of the remaining body is still read. */
const MAX_DISCARDED_BYTES = 64 * 1024

/**
 * Bounds the connections of a server. `maxConnections` would reject the newest one, so a stranger with enough silent
 * connections could lock out all others. This closes the connection that has been idle longest: without a request, or
 * with an incomplete one. Connections that wait for an answer stay.
 */
export function limitConnections(server: Server, most: number): void {
  /** Each connection with its current request; the longest idle one first. */
  const open = new Map<Socket, IncomingMessage | null>()
  const move = (socket: Socket, request: IncomingMessage | null): void => {
    if (!open.delete(socket)) return
    open.set(socket, request)
  }
  server.on('connection', (socket: Socket) => {
    if (open.size >= most) {
      const idle = [...open].find(([, request]) => request === null || !request.complete)
      if (idle === undefined) {
        socket.destroy()
        return
      }
      open.delete(idle[0])
      idle[0].destroy()
    }
    open.set(socket, null)
    socket.once('close', () => open.delete(socket))
  })
  server.on('request', (request, response) => {
    const { socket } = request
    move(socket, request)
    response.once('close', () => move(socket, null))
  })
}

/**
 * For a request answered before its body is complete. Reads and discards a little of the rest, so that a small body
 * leaves the connection usable. A large one is not read on, because even discarded bytes occupy memory until
 * collected. The connection stays open for a moment: closing it would lose the answer.
 */
export function discardBody(request: IncomingMessage): void {
  let discarded = 0
  request.on('data', (chunk: Buffer) => {
    discarded += chunk.length
    if (discarded > MAX_DISCARDED_BYTES) request.pause()
  })
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy()
  }, LINGER_MS)
  timer.unref()
  request.once('close', () => clearTimeout(timer))
}
