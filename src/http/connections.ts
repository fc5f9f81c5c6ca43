import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** How long the connection of a request stays open that was answered before its body had come, in milliseconds. */
const LINGER_MS = 2_000
/** How much of such a body is still read. */
const MAX_DISCARDED_BYTES = 64 * 1024

/**
 * Bounds the connections of a server. `maxConnections` would turn away whoever comes last, so that a stranger who opens
 * enough of them and stays silent keeps all others out. Here the one that has brought nothing for longest goes: no
 * request yet, or one that is not complete. Those that wait for their answer stay.
 */
export function limitConnections(server: Server, most: number): void {
  /** With the request that a connection brings; the one that has been still for longest first. */
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
 * For a request that is answered before its body has come. A little of the rest is read and thrown away, so that a small
 * body leaves the connection usable; of a large one nothing more is taken, because even bytes that are thrown away cost
 * memory until they are collected. The connection is kept open for a moment, or closing it would take the answer with it.
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
