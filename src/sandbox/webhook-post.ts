import { type Agent, request } from 'node:http'
import { createHmac } from 'node:crypto'

/** The outcome of one post: the receiver's status, or why there was none. */
export type PostOutcome = number | 'timeout' | 'unreachable' | 'closed'

export interface PostRequest {
  readonly url: URL
  readonly body: Buffer
  readonly signature: string | undefined
  readonly timeoutMs: number
  readonly agent: Agent
  readonly signal: AbortSignal
}

/** Posts one delivery and waits for the status line; never throws. Redirects are not followed. */
export function postWebhook({
  url,
  body,
  signature,
  timeoutMs,
  agent,
  signal,
}: PostRequest): Promise<PostOutcome> {
  const { promise, resolve } = Promise.withResolvers<PostOutcome>()
  if (signal.aborted) return Promise.resolve('closed')
  const headers: Record<string, string | number> = {
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    ...(signature !== undefined && { 'x-webhook-signature': signature }),
  }
  const sent = request(url, { method: 'POST', headers, agent, signal }, (response) => {
    response.resume()
    resolve(response.statusCode ?? 'unreachable')
  })
  // Timed from the connection on: waiting for one behind other deliveries is not the receiver's fault.
  sent.once('socket', () => {
    const timer = setTimeout(() => {
      resolve('timeout')
      sent.destroy()
    }, timeoutMs)
    sent.once('close', () => clearTimeout(timer))
  })
  sent.on('error', () => resolve(signal.aborted ? 'closed' : 'unreachable'))
  sent.end(body)
  return promise
}

/**
 * The value of `x-webhook-signature`: lowercase hexadecimal HMAC-SHA-256 over the bytes of the body
 * (service-interface.md, Events 1).
 */
export function signBody(body: Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** A signature that a receiver must reject: of another secret, truncated, or absent, selected by `choice`. */
export function badSignature(body: Buffer, secret: string, choice: number): string | undefined {
  const other = signBody(body, `not ${secret}`)
  return [other, signBody(body, secret).slice(0, 32), undefined][choice % 3]
}
