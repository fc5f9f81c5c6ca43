import { createHmac } from 'node:crypto'
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import type { SandboxOptions } from './options.ts'
import { abortableDelay } from './rng.ts'
import type { PostOutcome, StatsRecorder } from './stats.ts'

/** How a delivery ended: acknowledged with 2xx, given up after the last retry, or cut off by close. */
export type DeliveryOutcome = 'acknowledged' | 'given_up' | 'closed'

const isAcknowledged = (posted: PostOutcome) => typeof posted === 'number' && posted >= 200 && posted < 300

/**
 * The value of `x-webhook-signature`: lowercase hexadecimal HMAC-SHA-256 over the bytes of the body.
 */
const sign = (body: Buffer, secret: string) => createHmac('sha256', secret).update(body).digest('hex')

/** Sends signed deliveries and retries unacknowledged ones with the same bytes. */
export function createDeliveries(
  settings: () => SandboxOptions,
  recorder: StatsRecorder,
  signal: AbortSignal,
) {
  // More connections at once than the receiver's backlog (511 in Node) would be lost for seconds.
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })

  /** Posts once and waits for the status line; never throws. Redirects are not followed. */
  async function post(url: URL, body: Buffer, signature: string | undefined): Promise<PostOutcome> {
    const { promise, resolve } = Promise.withResolvers<PostOutcome>()
    const headers: OutgoingHttpHeaders = {
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
      }, settings().ackTimeoutMs)
      sent.once('close', () => clearTimeout(timer))
    })
    sent.on('error', () => resolve(signal.aborted ? 'closed' : 'unreachable'))
    sent.end(body)
    const posted = await promise
    recorder.answer(posted)
    return posted
  }

  const postSigned = (url: URL, body: Buffer) => post(url, body, sign(body, settings().webhookSecret))

  return {
    /** `answered` is called once, when the first post was answered. */
    async sendUntilAcknowledged(url: URL, body: Buffer, answered?: () => void): Promise<DeliveryOutcome> {
      const delays = settings().retryDelaysMs
      for (let attempt = 0; ; attempt += 1) {
        const posted = await postSigned(url, body)
        if (attempt === 0) answered?.()
        if (isAcknowledged(posted)) {
          recorder.counts.deliveries.acknowledged += 1
          return 'acknowledged'
        }
        const delay = delays[attempt]
        if (delay === undefined) return signal.aborted ? 'closed' : 'given_up'
        await abortableDelay(delay, signal)
        if (signal.aborted) return 'closed'
        recorder.counts.deliveries.retried += 1
      }
    },
    /** Sends a duplicate; not retried, whatever the answer. */
    async sendAgain(url: URL, body: Buffer): Promise<void> {
      await postSigned(url, body)
    },
    /** Sends it with the signature of another secret, a truncated one, or none, as `choice` selects. */
    async sendBadlySigned(url: URL, body: Buffer, choice: number): Promise<void> {
      const { webhookSecret } = settings()
      const bad = [sign(body, `not ${webhookSecret}`), sign(body, webhookSecret).slice(0, 32), undefined]
      recorder.counts.deliveries.badly_signed += 1
      if (isAcknowledged(await post(url, body, bad[choice])))
        recorder.counts.deliveries.badly_signed_accepted += 1
    },
    close: (): void => agent.destroy(),
  }
}
