import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** Memory of one body, from its request's head until the request is answered. */
export interface MemoryReservation {
  /**
   * Reserves what has arrived.
   * @param arrived bytes since the last call
   * @param size of the whole buffer
   * @returns false if there is no room
   */
  hold(arrived: number, size: number): boolean
  /** The body is complete; it can no longer be evicted. */
  complete(): void
  release(): void
}

interface Reserved {
  size: number
  /** Bytes that are still to come. */
  remaining: number
  /** When the next bytes are due at `MIN_BYTES_PER_MS`. */
  dueAt: number
  isReceived: boolean
  readonly onEvicted: () => void
}

/** A sender that has been slower for longer than `SLACK_MS` is late. */
const MIN_BYTES_PER_MS = 64
const SLACK_MS = 1_000

/**
 * Bounds the memory of bodies in progress. Senders are not authenticated until their body is complete, so strangers
 * could fill the memory and keep it. An announced length reserves nothing. When the memory is full, incomplete bodies
 * are evicted: late senders first, then the body with the most bytes to come. So the body that needs least always completes, and
 * no two evict each other for ever.
 */
export class BodyMemory {
  readonly #limit: number
  readonly #now: () => number
  readonly #reserved = new Set<Reserved>()
  #used = 0

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
  }

  /**
   * @param length of the body, as announced, or its maximum
   * @param onEvicted called when the memory is given to another body
   */
  open(length: number, onEvicted: () => void): MemoryReservation {
    const dueAt = this.#now() + SLACK_MS
    const own: Reserved = { size: 0, remaining: length, dueAt, isReceived: false, onEvicted }
    this.#reserved.add(own)
    return {
      hold: (arrived, size) => {
        if (!this.#reserved.has(own)) return false
        const now = this.#now()
        own.dueAt = Math.min(own.dueAt + arrived / MIN_BYTES_PER_MS, now + SLACK_MS)
        own.remaining -= arrived
        if (!this.#makeSpace(own, size, now)) return false
        this.#used += size - own.size
        own.size = size
        return true
      },
      complete: () => {
        own.isReceived = true
      },
      release: () => this.#release(own),
    }
  }

  /** Evicts nothing if that would not free enough. */
  #makeSpace(own: Reserved, size: number, now: number): boolean {
    let lacking = this.#used + size - own.size - this.#limit
    if (lacking <= 0) return true
    const evicted: Reserved[] = []
    const later = [...this.#reserved]
      .filter((body) => !body.isReceived && precedence(body, own, now) > 0)
      .toSorted((a, b) => precedence(b, a, now))
    for (const body of later) {
      if (lacking <= 0) break
      lacking -= body.size
      evicted.push(body)
    }
    if (lacking > 0) return false
    for (const body of evicted) {
      this.#release(body)
      body.onEvicted()
    }
    return true
  }

  #release(body: Reserved): void {
    if (this.#reserved.delete(body)) this.#used -= body.size
  }
}

/** Positive if `b` comes before `a`. */
function precedence(a: Reserved, b: Reserved, now: number): number {
  const lateness = ({ dueAt }: Reserved): number => Math.max(0, now - dueAt)
  return lateness(a) - lateness(b) || a.remaining - b.remaining
}

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
