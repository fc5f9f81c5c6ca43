import fastify, { type FastifyInstance } from 'fastify'
import { describeError, FillrateError } from '../util/error-text.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { Log } from '../util/log.ts'
import type { ReceiveWebhook } from '../pipeline/receive.ts'
import { isTransient } from '../store/transaction.ts'
import { cache } from '../util/cached.ts'
import type { DashboardServerOptions } from './dashboard-routes.ts'
import { limitConnections, discardBody, BodyMemory, type MemoryReservation } from './body-memory.ts'
import type { Service } from '../domain/service/service.ts'
import type { IncomingMessage } from 'node:http'
import { isWellFormedToken } from '../webhook/address.ts'
import { describeSignature, isWellFormedSignature } from '../webhook/signature.ts'

export interface HttpServerOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  /** Null without a secret: deliveries cannot be verified, so there is no webhook. */
  readonly receive: ReceiveWebhook | null
  /** How the service of a path signs its deliveries; undefined: there is no such service. */
  readonly signature: (service: string) => Service['signature'] | undefined
  /** Notified when a delivery is stored. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** Why the process is not ready; null if it is. */
  readonly notReadyReason: () => Promise<string | null>
  /** The dashboard and its APIs. Null: none. */
  readonly dashboard: Omit<DashboardServerOptions, 'host'> | null
  readonly log: Log
}

export interface HttpServer {
  readonly host: string
  readonly port: number
  /** Stops accepting, finishes requests in progress, closes idle connections. */
  close(): Promise<void>
}

/** Maximum duration of a request. Slower senders are cut off, because they occupy a connection. */
const REQUEST_TIMEOUT_MS = 30_000
const HEADERS_TIMEOUT_MS = 10_000
/** How often timeouts are checked; Node's default of 30 s would double them. */
const TIMEOUT_CHECK_MS = 5_000
/** Fits into the 1,024 file descriptors of a process: without one for a new connection, none could be closed for it. */
const MAX_CONNECTIONS = 768
const READY_CACHE_MS = 1_000
/** For everything but deliveries: a form is small, and any path accepts a body from anyone. */
const MAX_FORM_BYTES = 16_384

/**
 * Opens the process's only HTTP server.
 * @throws an error with code EADDRINUSE if the port is taken
 */
export async function openHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const server = fastify({
    bodyLimit: MAX_FORM_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: REQUEST_TIMEOUT_MS,
    http: {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    },
    forceCloseConnections: 'idle',
    logger: false,
  })
  limitConnections(server.server, MAX_CONNECTIONS)
  if (options.receive)
    registerWebhook(server, {
      receive: options.receive,
      signature: options.signature,
      deliveries: options.deliveries,
      onFailed: (error) =>
        // The sender repeats it; that Postgres is away is said once, as a condition.
        options.log[isTransient(error) ? 'debug' : 'error'](
          { event: 'delivery_not_stored', reason: describeError(error) },
          'failed to store a delivery',
        ),
    })
  registerHealth(server, options)
  if (options.dashboard) {
    // Only here: the receiver of a run has none.
    const { registerDashboard } = await import('./dashboard-routes.ts')
    registerDashboard(server, { ...options.dashboard, host: options.host })
  }
  await server.listen({ host: options.host, port: options.port })
  const address = server.server.address()
  const port = typeof address === 'object' && address ? address.port : options.port
  return {
    host: options.host,
    port,
    close: async () => {
      await server.close()
    },
  }
}

function registerHealth(server: FastifyInstance, options: HttpServerOptions): void {
  // No token needed, so the result is cached: requests must not occupy the connections that store deliveries.
  const notReady = cache(options.notReadyReason, { minAgeMs: READY_CACHE_MS, cost: 1 })
  server.get('/healthz', () => ({ service: 'fillrate', ok: true }))
  server.get('/readyz', async (_, reply) => {
    const reason = await notReady()
    return reason === null ? { ready: true } : reply.code(503).send({ ready: false, reason })
  })
}

const MIB = 1024 * 1024

/** Maximum size of a delivery. */
const MAX_DELIVERY_BYTES = 10 * MIB

/** Maximum size of all deliveries in progress. Each costs several times its size until it is stored. */
const MAX_PENDING_BYTES = 32 * MIB

const RETRY_AFTER_S = '5'

interface WebhookRouteOptions {
  readonly receive: ReceiveWebhook
  readonly signature: HttpServerOptions['signature']
  /** Notified when a delivery is stored, so that it is settled at once. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** Called for a delivery that could not be stored; its sender retries. */
  readonly onFailed: (error: Error) => void
}

type Reservations = WeakMap<IncomingMessage, MemoryReservation>

/** A rejected request, with the status of its answer. */
class RequestError extends FillrateError {
  override readonly name = 'RequestError'
  readonly statusCode: number

  constructor(statusCode: number, message: string) {
    super(message)
    this.statusCode = statusCode
  }
}

/**
 * `POST /webhooks/enrichment/:job`, of several services `/webhooks/NAME/:job`, and `/:job/:token` for deliveries without a signature. The body stays bytes: the
 * signature covers them, and nothing is parsed before it is verified. Requests that their headers rule out are answered before the body is read, and the memory of
 * concurrent bodies is bounded.
 */
function registerWebhook(server: FastifyInstance, options: WebhookRouteOptions): void {
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
      return reply.code(status).send({ error: describeError(error) })
    })
    scope.addHook<{ Params: WebhookParams }>('onRequest', async (request, reply) => {
      const signature = options.signature(request.params.service)
      if (signature === undefined) throw new RequestError(404, 'no service has this address')
      checkProof(request.raw, request.params.token ?? null, signature)
      checkHeaders(request.raw)
      // Not when the body is complete: until it is stored, it occupies more memory than its size.
      reply.raw.once('close', () => places.get(request.raw)?.release())
    })
    for (const path of ['', '/:job', '/:job/:token'])
      scope.post<{ Params: WebhookParams }>(
        `/webhooks/:service${path}`,
        { bodyLimit: MAX_DELIVERY_BYTES },
        async (request, reply) => {
          const signature = options.signature(request.params.service)
          const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
          try {
            const receipt = await options.receive({
              body,
              signature: signature === 'none' ? undefined : request.headers[signature?.header ?? ''],
              service: request.params.service,
              job: request.params.job ?? null,
              token: request.params.token ?? null,
            })
            if (receipt === 'bad_signature')
              return await reply.code(401).send({
                error: signature === 'none' ? WRONG_TOKEN : 'the signature does not match the body',
              })
            if (receipt === 'accepted') options.deliveries.notify()
            return await reply.code(200).send({ receipt })
          } catch (error) {
            options.onFailed(error as Error)
            return reply
              .code(503)
              .header('retry-after', RETRY_AFTER_S)
              .send({ error: 'not stored, please retry' })
          }
        },
      )
  })
}

interface WebhookParams {
  readonly service: string
  readonly job?: string
  /** Of an address that stands for a signature. */
  readonly token?: string
}

const WRONG_TOKEN = 'the address has no token of this job, which stands for a signature'

/** @throws RequestError if there is no signature, or no token, that could be right */
function checkProof(
  { headers }: IncomingMessage,
  token: string | null,
  signature: Service['signature'],
): void {
  if (signature === 'none') {
    if (!isWellFormedToken(token)) throw new RequestError(401, WRONG_TOKEN)
  } else if (!isWellFormedSignature(headers[signature.header], signature))
    throw new RequestError(
      401,
      `${signature.header} is missing or invalid: expected ${describeSignature(signature)}`,
    )
}

/** @throws RequestError if the headers alone rule the request out */
function checkHeaders({ headers }: IncomingMessage): void {
  // The signature covers the JSON text, and nothing is decompressed before it is verified.
  if ((headers['content-encoding'] ?? 'identity') !== 'identity')
    throw new RequestError(415, 'the body must not be compressed: the signature covers the sent bytes')
  if (Number(headers['content-length'] ?? 0) > MAX_DELIVERY_BYTES) throw tooLarge()
}

const tooLarge = (): RequestError => new RequestError(413, `the body exceeds ${MAX_DELIVERY_BYTES} bytes`)
const overloaded = (): RequestError => new RequestError(503, 'too many deliveries in progress, please retry')

/**
 * Reads a body into reserved memory, which is released when the request ends. The buffer grows with what arrives: what a
 * request announces costs its sender nothing.
 * @throws RequestError
 */
function readBody(request: IncomingMessage, room: BodyMemory, places: Reservations): Promise<Buffer> {
  const most = Number(request.headers['content-length'] ?? MAX_DELIVERY_BYTES)
  return new Promise((resolve, reject) => {
    let body: Buffer = Buffer.alloc(0)
    let length = 0
    const end = (error: Error): void => {
      request.off('data', take).off('end', done)
      place.release()
      body = Buffer.alloc(0)
      reject(error)
    }
    const take = (chunk: Buffer): void => {
      const needed = length + chunk.length
      if (needed > MAX_DELIVERY_BYTES) return end(tooLarge())
      const size = needed > body.length ? Math.max(needed, Math.min(most, body.length * 2)) : body.length
      if (!place.hold(chunk.length, size)) return end(overloaded())
      if (size > body.length) body = Buffer.concat([body.subarray(0, length)], size)
      chunk.copy(body, length)
      length = needed
    }
    const done = (): void => {
      place.complete()
      resolve(body.subarray(0, length))
    }
    const place = room.open(most, () => end(overloaded()))
    places.set(request, place)
    request.on('data', take).once('end', done)
    request.once('error', end)
  })
}
