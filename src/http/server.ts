import type { WakeSignal } from '../util/wake-signal.ts'
import fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { ReceiveWebhook } from '../pipeline/receive.ts'
import { cached } from '../util/cached.ts'
import { registerDashboard, type DashboardServerOptions } from './dashboard-routes.ts'
import { limitConnections } from './connections.ts'
import { registerWebhook } from './webhook.ts'

export interface HttpServerOptions {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** Null: no secret is set, so no delivery can be verified, and there is no webhook. */
  readonly receive: ReceiveWebhook | null
  /** Notified when a delivery is stored. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** Why the process can't work now; null when it can. */
  readonly notReadyReason: () => Promise<string | null>
  /** What people and programs look at. Null: nothing. */
  readonly dashboard: Omit<DashboardServerOptions, 'host'> | null
  readonly log: Logger
}

export interface HttpServer {
  readonly host: string
  readonly port: number
  /** Stops accepting, lets requests under way end, closes idle connections. */
  close(): Promise<void>
}

/** How long a sender may take for a whole request. Slower ones are cut off: they hold a connection for nothing. */
const REQUEST_TIMEOUT_MS = 30_000
const HEADERS_TIMEOUT_MS = 10_000
/** How often slow senders are looked for; Node's own 30 s would let them stay for twice the time. */
const TIMEOUT_CHECK_MS = 5_000
const MAX_CONNECTIONS = 1_024
const READY_CACHE_MS = 1_000
/** Of what is no delivery: a form is small, and any path takes a body from anybody. */
const MAX_FORM_BYTES = 16_384

/**
 * Opens the process's one HTTP server.
 * @throws with code EADDRINUSE where the port is taken
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
      deliveries: options.deliveries,
      onFailed: (error) => options.log.error({ reason: error.message }, 'a delivery could not be stored'),
    })
  registerHealth(server, options)
  if (options.dashboard) registerDashboard(server, { ...options.dashboard, host: options.host })
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
  // It needs no token: however often strangers ask, the connections that store deliveries are asked once in a while.
  const notReady = cached(options.notReadyReason, { least: READY_CACHE_MS, cost: 1 })
  server.get('/healthz', () => ({ service: 'fillrate', ok: true }))
  server.get('/readyz', async (_, reply) => {
    const reason = await notReady()
    return reason === null ? { ready: true } : reply.code(503).send({ ready: false, reason })
  })
}
