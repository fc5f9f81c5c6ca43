import { Agent } from 'node:http'
import type { SandboxOptions } from './options.ts'
import { abortableDelay } from './rng.ts'
import { type PostOutcome, badSignature, postWebhook, signBody } from './webhook-post.ts'
import type { StatsRecorder } from './stats.ts'

/** How a delivery ended: acknowledged with 2xx, given up after the last retry, or cut off by close. */
export type DeliveryOutcome = 'acknowledged' | 'given_up' | 'closed'

const isAcknowledged = (posted: PostOutcome) => typeof posted === 'number' && posted >= 200 && posted < 300

/** Sends signed deliveries and retries unacknowledged ones with the same bytes. */
export function createDeliveries(
  settings: () => SandboxOptions,
  recorder: StatsRecorder,
  signal: AbortSignal,
) {
  // More connections at once than the receiver's backlog (511 in Node) would be lost for seconds.
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })

  async function sendOnce(url: URL, body: Buffer, signature: string | undefined): Promise<PostOutcome> {
    const posted = await postWebhook({
      url,
      body,
      signature,
      timeoutMs: settings().ackTimeoutMs,
      agent,
      signal,
    })
    recorder.answer(posted)
    return posted
  }
  const sendSigned = (url: URL, body: Buffer) => sendOnce(url, body, signBody(body, settings().webhookSecret))

  return {
    /** `answered` is called once, when the first post was answered. */
    async sendUntilAcknowledged(url: URL, body: Buffer, answered: () => void): Promise<DeliveryOutcome> {
      const delays = settings().retryDelaysMs
      for (let attempt = 0; ; attempt += 1) {
        const posted = await sendSigned(url, body)
        if (attempt === 0) answered()
        if (isAcknowledged(posted)) {
          recorder.deliveries.acknowledged += 1
          return 'acknowledged'
        }
        const delay = delays[attempt]
        if (delay === undefined) return signal.aborted ? 'closed' : 'given_up'
        await abortableDelay(delay, signal)
        if (signal.aborted) return 'closed'
        recorder.deliveries.retried += 1
      }
    },
    /** Sends a duplicate; not retried, whatever the answer. */
    async sendAgain(url: URL, body: Buffer): Promise<void> {
      recorder.deliveries.duplicated += 1
      await sendSigned(url, body)
    },
    async sendBadlySigned(url: URL, body: Buffer, choice: number): Promise<void> {
      recorder.deliveries.badly_signed += 1
      const posted = await sendOnce(url, body, badSignature(body, settings().webhookSecret, choice))
      if (isAcknowledged(posted)) recorder.deliveries.badly_signed_accepted += 1
    },
    close: (): void => agent.destroy(),
  }
}
