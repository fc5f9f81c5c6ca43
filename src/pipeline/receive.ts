import { createHash } from 'node:crypto'
import { Delivery } from '../domain/job.ts'
import * as deliveries from '../store/deliveries.ts'
import type { Database } from '../store/open.ts'
import { createBatcher } from '../util/batcher.ts'
import { parseEvent } from '../webhook/event.ts'
import { verifyWebhook } from '../webhook/signature.ts'

/** One POST to the webhook, as received. */
export interface WebhookPost {
  /** The raw bytes: the signature covers them, not a parsed form. */
  readonly body: Buffer
  readonly signature: string | string[] | undefined
  /** From the path; anything but a UUID is none of our jobs. */
  readonly job: string | null
}

export type WebhookReceipt = 'accepted' | 'duplicate' | 'bad_signature'

export type ReceiveWebhook = (post: WebhookPost) => Promise<WebhookReceipt>

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Creates the receiver: verify, store, acknowledge. Deliveries are settled later by any process, so the
 * acknowledgement does not wait for that and is always true. Concurrent deliveries share an INSERT. Rejects if
 * Postgres does not store the delivery: the sender must then retry.
 */
export function createWebhookReceiver(db: Database, secrets: readonly string[]): ReceiveWebhook {
  const insert = createBatcher(
    async (batch: deliveries.ReceivedDelivery[]) => {
      const unique = new Map(batch.map((delivery) => [delivery.eventId, delivery]))
      return new Set(await deliveries.insertDeliveries(db, [...unique.values()]))
    },
    { maxItems: 50 },
  )
  return async (post) => {
    if (!verifyWebhook(post.body, post.signature, secrets)) return 'bad_signature'
    const delivery = toReceivedDelivery(post)
    const inserted = await insert(delivery)
    return inserted.has(delivery.eventId) ? 'accepted' : 'duplicate'
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
    // Without an event id, the same bytes are the same delivery.
    eventId: parsed.eventId ?? `sha256:${createHash('sha256').update(post.body).digest('hex')}`,
    job,
    jobId: null,
    state: Delivery.quarantined,
    reason: parsed.reason,
    body: null,
    raw: post.body.toString('base64'),
  }
}
