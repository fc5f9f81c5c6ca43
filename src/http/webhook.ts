import type { WakeSignal } from '../util/wake-signal.ts'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { ReceiveWebhook } from '../pipeline/receive.ts'
import { isWellFormedSignature } from '../webhook/signature.ts'
import { discardBody } from './connections.ts'
import { BodyMemory, type MemoryReservation } from './body-memory.ts'

const MIB = 1024 * 1024

/** The most a delivery's body may have (DESIGN section 7). */
const MAX_DELIVERY_BYTES = 10 * MIB

/** The most that bodies under way may have together. Each costs several times its bytes until it is stored. */
const MAX_PENDING_BYTES = 32 * MIB

/** What a body of unknown length takes at first; it is doubled as often as it has to be. */
const INITIAL_BYTES = 64 * 1024

const RETRY_AFTER_S = '5'

export interface WebhookRouteOptions {
  readonly receive: ReceiveWebhook
  /** Told of every new delivery, so that it is settled at once. */
  /** Notified when a delivery is stored. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** A delivery that could not be stored; its sender tries again. */
  readonly onFailed: (error: Error) => void
}

type Reservations = WeakMap<IncomingMessage, MemoryReservation>

/** A request that is not taken, with the status that it is answered. */
class RequestError extends Error {
  override readonly name = 'Refused'
  readonly statusCode: number

  constructor(statusCode: number, message: string) {
    super(message)
    this.statusCode = statusCode
  }
}

/**
 * `POST /webhooks/enrichment/:job`. The body stays bytes: the signature is over them, and nothing of it is parsed
 * before the signature is verified. What can be refused by its head alone is answered before the body is read, and the
 * bodies that are read at the same time are bounded by their bytes.
 */
export function registerWebhook(server: FastifyInstance, options: WebhookRouteOptions): void {
  const room = new BodyMemory(MAX_PENDING_BYTES)
  const places: Reservations = new WeakMap()
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (_: unknown, payload: IncomingMessage) =>
      readBody(payload, room, places),
    )
    scope.setErrorHandler<Error & { statusCode?: number }>((error, request, reply) => {
      discardBody(request.raw)
      const status = error.statusCode ?? 500
      if (status === 503) reply.header('retry-after', RETRY_AFTER_S)
      return reply.code(status).send({ error: error.message })
    })
    scope.addHook('onRequest', async (request, reply) => {
      checkHeaders(request.raw)
      // Not when the body has come: until it is stored, more than its bytes is in memory.
      reply.raw.once('close', () => places.get(request.raw)?.release())
    })
    for (const path of ['/webhooks/enrichment', '/webhooks/enrichment/:job'])
      scope.post<{ Params: { job?: string } }>(
        path,
        { bodyLimit: MAX_DELIVERY_BYTES },
        async (request, reply) => {
          const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
          try {
            const receipt = await options.receive({
              body,
              signature: request.headers['x-webhook-signature'],
              job: request.params.job ?? null,
            })
            if (receipt === 'bad_signature')
              return await reply.code(401).send({ error: 'the signature does not match the body' })
            if (receipt === 'accepted') options.deliveries.notify()
            return await reply.code(200).send({ receipt })
          } catch (error) {
            options.onFailed(error as Error)
            return reply
              .code(503)
              .header('retry-after', RETRY_AFTER_S)
              .send({ error: 'not stored, please deliver again' })
          }
        },
      )
  })
}

/** @throws Refused where the head alone tells that the request is not to be taken */
function checkHeaders({ headers }: IncomingMessage): void {
  if (!isWellFormedSignature(headers['x-webhook-signature']))
    throw new RequestError(
      401,
      'x-webhook-signature is missing, or is no signature: 64 lowercase hexadecimal digits',
    )
  // The signature is over the JSON text, and nothing is unpacked before it is verified.
  if ((headers['content-encoding'] ?? 'identity') !== 'identity')
    throw new RequestError(415, 'the body must not be compressed: it is signed as it comes')
  if (Number(headers['content-length'] ?? 0) > MAX_DELIVERY_BYTES) throw tooLarge()
}

const tooLarge = (): RequestError => new RequestError(413, `a body may have ${MAX_DELIVERY_BYTES} bytes`)
const overloaded = (): RequestError =>
  new RequestError(503, 'too many deliveries are under way, please deliver again')

/** Reads a body that finds room. Its place is its own until the request is over. @throws Refused */
function readBody(request: IncomingMessage, room: BodyMemory, places: Reservations): Promise<Buffer> {
  const announced = request.headers['content-length']
  return new Promise((resolve, reject) => {
    let body: Buffer = Buffer.alloc(0)
    let length = 0
    const end = (error: Error): void => {
      request.off('data', take).off('end', done)
      place?.release()
      body = Buffer.alloc(0)
      reject(error)
    }
    const take = (chunk: Buffer): void => {
      const needed = length + chunk.length
      if (needed > MAX_DELIVERY_BYTES) return end(tooLarge())
      if (needed > body.length) {
        const size = Math.min(MAX_DELIVERY_BYTES, Math.max(needed, body.length * 2))
        if (place?.grow(size) !== true) return end(overloaded())
        body = Buffer.concat([body.subarray(0, length)], size)
      }
      chunk.copy(body, length)
      length = needed
    }
    const done = (): void => {
      place?.complete()
      resolve(body.subarray(0, length))
    }
    const size = announced === undefined ? INITIAL_BYTES : Number(announced)
    const place: MemoryReservation | null = room.reserve(size, () => end(overloaded()))
    if (place === null) return end(overloaded())
    places.set(request, place)
    // Not zeroed: memory that no byte has been written to is not the process's yet.
    body = Buffer.allocUnsafeSlow(size)
    request.on('data', take).once('end', done)
    request.once('error', end)
    return undefined
  })
}
