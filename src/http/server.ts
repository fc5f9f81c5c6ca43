import fastify, { type FastifyInstance } from 'fastify'
import { describeError } from '../util/error-text.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { Log } from '../util/log.ts'
import type { ReceiveWebhook } from '../pipeline/receive.ts'
import { isTransient } from '../store/transaction.ts'
import { cached } from '../util/cached.ts'
import type { DashboardServerOptions } from './dashboard-routes.ts'
import { limitConnections } from './connections.ts'
import type { Service } from '../domain/service/service.ts'
import { registerWebhook } from './webhook.ts'

export interface HttpServerOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  /** Null without a secret: deliveries cannot be verified, so there is no webhook. */
  readonly receive: ReceiveWebhook | null
  /** How the service of a path signs its deliveries; null while that is not known, undefined: there is no such service. */
  readonly signature: (service: string) => Service['signature'] | null | undefined
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
  const notReady = cached(options.notReadyReason, { minAgeMs: READY_CACHE_MS, cost: 1 })
  server.get('/healthz', () => ({ service: 'fillrate', ok: true }))
  server.get('/readyz', async (_, reply) => {
    const reason = await notReady()
    return reason === null ? { ready: true } : reply.code(503).send({ ready: false, reason })
  })
}
