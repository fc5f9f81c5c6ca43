import type { FastifyInstance } from 'fastify'
import type { Receive } from '../../pipeline/receive.ts'

/** The most a delivery's body may have (DESIGN section 7). */
const BODY_LIMIT = 10 * 1024 * 1024

export interface WebhookOptions {
  readonly receive: Receive
  /** Told of every new delivery, so that it is settled at once. */
  readonly onDelivered: () => void
  /** A delivery that could not be stored; its sender tries again. */
  readonly onFailed: (error: Error) => void
}

/**
 * `POST /webhooks/enrichment/:job`. The body stays bytes: the signature is over them, and nothing of it is parsed
 * before the signature is verified.
 */
export function webhook(server: FastifyInstance, options: WebhookOptions): void {
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: BODY_LIMIT }, (_, body, done) =>
      done(null, body),
    )
    for (const path of ['/webhooks/enrichment', '/webhooks/enrichment/:job'])
      scope.post<{ Params: { job?: string } }>(path, { bodyLimit: BODY_LIMIT }, async (request, reply) => {
        // The signature is over the JSON text, and nothing is unpacked before it is verified.
        const packed = request.headers['content-encoding'] ?? 'identity'
        if (packed !== 'identity')
          return reply.code(415).send({ error: 'the body must not be compressed: it is signed as it comes' })
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
        try {
          const receipt = await options.receive({
            body,
            signature: request.headers['x-webhook-signature'],
            job: request.params.job ?? null,
          })
          if (receipt === 'bad_signature')
            return await reply.code(401).send({ error: 'the signature does not match the body' })
          if (receipt === 'stored') options.onDelivered()
          return await reply.code(200).send({ receipt })
        } catch (error) {
          options.onFailed(error as Error)
          return reply
            .code(503)
            .header('retry-after', '5')
            .send({ error: 'not stored, please deliver again' })
        }
      })
  })
}
