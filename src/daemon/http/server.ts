import fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Receive } from '../../pipeline/receive.ts'
import { remembered } from '../../pipeline/remembered.ts'
import { board, type BoardOptions } from './board.ts'
import { boundConnections } from './connections.ts'
import { webhook } from './webhook.ts'

export interface ServerOptions {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** Null: no secret is set, so no delivery can be verified, and there is no webhook. */
  readonly receive: Receive | null
  readonly onDelivered: () => void
  /** Why the process can't work now; null when it can. */
  readonly notReady: () => Promise<string | null>
  /** What people and programs look at. Null: nothing. */
  readonly board: Omit<BoardOptions, 'host'> | null
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
const HEAD_TIMEOUT_MS = 10_000
/** How often slow senders are looked for; Node's own 30 s would let them stay for twice the time. */
const TIMEOUT_LOOK_MS = 5_000
const MOST_CONNECTIONS = 1_024
const READY_FOR_MS = 1_000
/** Of what is no delivery: a form is small, and any path takes a body from anybody. */
const BODY_LIMIT = 16_384

/**
 * Opens the process's one HTTP server.
 * @throws with code EADDRINUSE where the port is taken
 */
export async function openServer(options: ServerOptions): Promise<HttpServer> {
  const server = fastify({
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: REQUEST_TIMEOUT_MS,
    http: {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: HEAD_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_LOOK_MS,
    },
    forceCloseConnections: 'idle',
    logger: false,
  })
  boundConnections(server.server, MOST_CONNECTIONS)
  if (options.receive)
    webhook(server, {
      receive: options.receive,
      onDelivered: options.onDelivered,
      onFailed: (error) => options.log.error({ reason: error.message }, 'a delivery could not be stored'),
    })
  health(server, options)
  if (options.board) board(server, { ...options.board, host: options.host })
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

function health(server: FastifyInstance, options: ServerOptions): void {
  // It needs no token: however often strangers ask, the connections that store deliveries are asked once in a while.
  const notReady = remembered(options.notReady, { least: READY_FOR_MS, cost: 1 })
  server.get('/healthz', () => ({ service: 'fillrate', ok: true }))
  server.get('/readyz', async (_, reply) => {
    const reason = await notReady()
    return reason === null ? { ready: true } : reply.code(503).send({ ready: false, reason })
  })
}
