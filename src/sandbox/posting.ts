import { request } from 'node:http'
import type { Agent } from 'node:http'

/** What became of one posted delivery: the receiver's status, or why there was none. */
export type Posted = number | 'timeout' | 'unreachable' | 'closed'

export interface Posting {
  readonly url: URL
  readonly body: Buffer
  readonly signature: string | undefined
  readonly timeoutMs: number
  readonly agent: Agent
  readonly signal: AbortSignal
}

/** Posts one delivery and waits for the status line; never throws. Redirects are not followed. */
export function post({ url, body, signature, timeoutMs, agent, signal }: Posting): Promise<Posted> {
  const { promise, resolve } = Promise.withResolvers<Posted>()
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
  // From the connection on: the wait for one, behind other deliveries, is not the receiver's time.
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
