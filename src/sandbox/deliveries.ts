import { createHmac } from 'node:crypto'
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import type { SandboxOptions } from './options.ts'
import { abortableDelay } from './rng.ts'
import { type StatsRecorder, increment } from './stats.ts'

/** The outcome of one post: the receiver's status, or why there was none. */
type PostOutcome = number | 'timeout' | 'unreachable' | 'closed'

/** A delivery without an answer in this time has failed. */
const ACK_TIMEOUT_MS = 5_000

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
  async function post(url: URL, body: Buffer, signature: string): Promise<PostOutcome> {
    const { promise, resolve } = Promise.withResolvers<PostOutcome>()
    const headers: OutgoingHttpHeaders = {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'x-webhook-signature': signature,
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
      }, ACK_TIMEOUT_MS)
      sent.once('close', () => clearTimeout(timer))
    })
    sent.on('error', () => resolve(signal.aborted ? 'closed' : 'unreachable'))
    sent.end(body)
    const posted = await promise
    increment(recorder.counts.deliveries.answers, posted)
    return posted
  }

  /** Sends it once, whatever the answer. @returns whether it was acknowledged */
  const send = async (url: URL, body: Buffer): Promise<boolean> =>
    isAcknowledged(await post(url, body, sign(body, settings().webhookSecret)))

  return {
    send,
    /** `answered` is called once, when the first post was answered. @returns whether it was acknowledged */
    async sendUntilAcknowledged(url: URL, body: Buffer, answered?: () => void): Promise<boolean> {
      const delays = settings().retryDelaysMs
      for (let attempt = 0; ; attempt += 1) {
        const isDone = await send(url, body)
        if (attempt === 0) answered?.()
        const delay = delays[attempt]
        if (isDone || delay === undefined) return isDone
        await abortableDelay(delay, signal)
        if (signal.aborted) return false
      }
    },
    /** Sends it with the signature of another secret. */
    async sendBadlySigned(url: URL, body: Buffer): Promise<void> {
      const signature = sign(body, `not ${settings().webhookSecret}`)
      recorder.counts.deliveries.badly_signed += 1
      if (isAcknowledged(await post(url, body, signature)))
        recorder.counts.deliveries.badly_signed_accepted += 1
    },
    close: (): void => agent.destroy(),
  }
}
