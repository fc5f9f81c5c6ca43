import { createHash } from 'node:crypto'
import { Delivery } from '../domain/job.ts'
import * as deliveries from '../store/deliveries.ts'
import type { Database } from '../store/open.ts'
import { parseEvent } from '../webhook/event.ts'
import { verifyWebhook } from '../webhook/signature.ts'
import { createBatcher } from '../util/batcher.ts'

/** One POST to the webhook, as it came. */
export interface WebhookPost {
  /** The bytes received: the signature is over them, not over what a parser makes of them. */
  readonly body: Buffer
  readonly signature: string | string[] | undefined
  /** From the path; anything but a UUID names no job of ours. */
  readonly job: string | null
}

export type WebhookReceipt = 'accepted' | 'duplicate' | 'bad_signature'

export type ReceiveWebhook = (post: WebhookPost) => Promise<WebhookReceipt>

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Makes the receiver's one step: verify, store, acknowledge. What a delivery says is settled later, by whichever
 * process comes to it; so the acknowledgement never waits for that, and never lies.
 * Many deliveries at once share an INSERT. Rejects when Postgres would not store it: then the sender must try again.
 */
export function createWebhookReceiver(db: Database, secrets: readonly string[]): ReceiveWebhook {
  const store = createBatcher(
    async (batch: deliveries.ReceivedDelivery[]) => {
      const unique = new Map(batch.map((delivery) => [delivery.eventId, delivery]))
      return new Set(await deliveries.insertDeliveries(db, [...unique.values()]))
    },
    { maxItems: 50 },
  )
  return async (post) => {
    if (!verifyWebhook(post.body, post.signature, secrets)) return 'bad_signature'
    const delivery = toReceivedDelivery(post)
    const fresh = await store(delivery)
    return fresh.has(delivery.eventId) ? 'accepted' : 'duplicate'
  }
}

function toReceivedDelivery(post: WebhookPost): deliveries.ReceivedDelivery {
  const job = post.job !== null && UUID.test(post.job) ? post.job : null
  const parsed = parseEvent(post.body)
  if (parsed.ok)
    return {
      eventId: parsed.event.eventId,
      job,
      jobId: parsed.event.jobId,
      state: Delivery.received,
      reason: null,
      body: post.body.toString('utf8'),
      raw: null,
    }
  return {
    // Without an identifier of its own, the same bytes are the same delivery.
    eventId: parsed.eventId ?? `sha256:${createHash('sha256').update(post.body).digest('hex')}`,
    job,
    jobId: null,
    state: Delivery.quarantined,
    reason: parsed.reason,
    body: null,
    raw: post.body.toString('base64'),
  }
}
