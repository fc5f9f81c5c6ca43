import * as deliveries from '../store/deliveries.ts'
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { Delivery, toJobId } from '../domain/job.ts'
import type { JobInputs, ServiceDelivery } from '../domain/service/messages.ts'
import type { Service } from '../domain/service/service.ts'
import { MalformedResponseError, type ServiceError } from '../service/errors.ts'
import type { Database } from '../store/open.ts'
import { createBatcher } from '../util/batcher.ts'
import { verifyJobAddress } from '../webhook/address.ts'
import { normalizeDelivery, parseEnvelope, readOwnDelivery, writeDelivery } from '../webhook/event.ts'
import { verifyWebhook } from '../webhook/signature.ts'

/** One POST to the webhook, as received. */
interface WebhookPost {
  /** The raw bytes: the signature covers them, not a parsed form. */
  readonly body: Buffer
  readonly signature: string | string[] | undefined
  /** From the path: of several services, whose it is. */
  readonly service?: string
  /** From the path; anything but a UUID is none of our jobs. */
  readonly job: string | null
  /** From the path, where deliveries have no signature. */
  readonly token?: string | null
}

export type WebhookReceipt = 'accepted' | 'duplicate' | 'bad_signature'

export type ReceiveWebhook = (post: WebhookPost) => Promise<WebhookReceipt>

/** How long a delivery waits for others, in milliseconds: they share a commit. */
const GATHER_MS = 30

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Creates the receiver: verify, store, acknowledge. Deliveries are settled later by any process, so the
 * acknowledgement does not wait for that and is always true. Concurrent deliveries share an INSERT. Rejects if
 * Postgres does not store the delivery: the sender must then retry.
 * @param serviceId its number; null: not known here, or not called yet
 * @param name of one of several services; null: the only one
 */
export function createWebhookReceiver(
  db: Database,
  secrets: readonly string[],
  service: Service,
  serviceId: () => Promise<number | null>,
  name: string | null = null,
): ReceiveWebhook {
  const insert = createBatcher(
    async (batch: deliveries.ReceivedDelivery[]) => {
      const unique = new Map(batch.map((delivery) => [delivery.contentForJob, delivery]))
      return new Set(await deliveries.insertDeliveries(db, [...unique.values()], await serviceId()))
    },
    { maxItems: 50, gatherMs: () => GATHER_MS },
  )
  return async (post) => {
    if (!verifyPost(post, secrets, service)) return 'bad_signature'
    const number = await serviceId()
    // No job can be for one of several services that was never called.
    const isUnknown = name !== null && number === null
    const own = { service, number, name: name ?? '' }
    const delivery = await toReceivedDelivery(db, isUnknown ? { ...post, job: null } : post, own)
    const inserted = await insert(delivery)
    return inserted.has(delivery.contentForJob) || inserted.has(delivery.content) ? 'accepted' : 'duplicate'
  }
}

/** Whether it comes from the service: by its signature, or by the token of its job in its address. */
function verifyPost(
  { body, job, token = null, signature: claimed }: WebhookPost,
  secrets: readonly string[],
  { signature }: Pick<Service, 'signature'>,
): boolean {
  if (signature === 'none') return verifyJobAddress(job, token, secrets)
  return verifyWebhook(body, claimed, secrets, signature)
}

async function toReceivedDelivery(
  db: Database,
  post: WebhookPost,
  { service, number, name }: ReceivingService,
): Promise<deliveries.ReceivedDelivery> {
  const job = post.job !== null && UUID.test(post.job) ? post.job : null
  const body =
    service.readDelivery === null ? post.body : await normalize(db, post.body, job, { service, number })
  const failure = "the service's `webhook.read` failed"
  return describeDelivery(body, { job, received: post.body, failure, from: name })
}

/** Whose a delivery is. */
interface ReceivingService {
  readonly service: Service
  readonly number: number | null
  /** Of the only one: an empty text. */
  readonly name: string
}

/**
 * Results that a call brought, as a delivery: matched, billed and settled like one.
 * @param eventId the same for the same results: they are stored once
 */
export function toFetchedDelivery(
  eventId: string,
  job: string,
  { delivery, raw }: { readonly delivery: ServiceDelivery; readonly raw: unknown },
): deliveries.ReceivedDelivery {
  const body = writeFetched(delivery, eventId)
  const received = body ?? Buffer.from(JSON.stringify(raw ?? null))
  return {
    ...describeDelivery(body, { job, received, failure: 'the results that were read are no JSON' }),
    eventId,
  }
}

/** What a call brought in place of results, which may be paid for, kept for inspection. Null: nothing. */
export function toKeptAnswer(
  eventId: string,
  job: string,
  error: ServiceError,
): deliveries.ReceivedDelivery | null {
  if (!(error instanceof MalformedResponseError) || error.body.length === 0) return null
  return { ...describeDelivery(null, { job, received: error.body, failure: error.message }), eventId }
}

/**
 * A page of the results of a job, which is stored beside the others until the last one comes. The same page, fetched twice with one
 * cursor, is the same delivery.
 * @param job.pages how many are stored
 */
export function toPage(
  job: { readonly id: string; readonly cursor: string | null; readonly pages: number },
  delivery: ServiceDelivery,
): deliveries.ReceivedDelivery {
  const cursor = job.cursor === null ? '' : createHash('sha256').update(job.cursor).digest('hex')
  const fetched = toFetchedDelivery(`page:${job.id}:${cursor}`, job.id, { delivery, raw: null })
  if (fetched.state !== Delivery.received) return fetched
  const eventId = `page:${job.id}:${String(job.pages).padStart(6, '0')}`
  return { ...fetched, state: Delivery.partial, eventId }
}

/** Null: what the adapter's reader made of the results is no JSON. */
function writeFetched(delivery: ServiceDelivery, eventId: string): Buffer | null {
  try {
    // With the job that they name: results of another job are not used for the one that was fetched.
    return writeDelivery({ ...delivery, eventId: undefined }, eventId)
  } catch {
    return null
  }
}

/** @param body in our own form; null: the service's reader failed */
function describeDelivery(
  body: Buffer | null,
  {
    job,
    received,
    failure,
    from = '',
  }: {
    readonly job: string | null
    readonly received: Buffer
    readonly failure: string
    /** The service whose delivery it is: two may send the same bytes. */
    readonly from?: string
  },
): deliveries.ReceivedDelivery {
  // Decoded once: it is stored as text.
  const text = body !== null && isUtf8(body) ? body.toString('utf8') : null
  const content = text === null ? received : (body ?? received)
  const ids = { content: toDigest(content, from), contentForJob: toDigest(content, from, job?.toLowerCase()) }
  const parsed =
    body === null ? { ok: false as const, reason: failure, eventId: null } : parseEnvelope(text ?? body)
  if (parsed.ok)
    return {
      ...ids,
      eventId: parsed.eventId,
      job,
      jobId: parsed.jobId,
      state: Delivery.received,
      reason: null,
      body: text,
      raw: null,
    }
  return {
    ...ids,
    // Without an event id, the same bytes are the same delivery.
    eventId: parsed.eventId ?? `sha256:${createHash('sha256').update(received).digest('hex')}`,
    job,
    jobId: null,
    state: Delivery.quarantined,
    reason: parsed.reason,
    body: null,
    raw: received.toString('base64'),
  }
}

/** A digest in the form of a UUID, as Postgres writes it. */
const toDigest = (content: Buffer, from: string, job = ''): string =>
  createHash('sha256')
    .update(from)
    .update(job)
    .update(content)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/, '$1-$2-$3-$4-$5')

/**
 * Reads a delivery with the inputs of its job: of the one in the webhook's path, unless the body names another one. The path is
 * not signed: with the inputs of a job that the body contradicts, results would be named after people whom they are not about.
 * @returns null: the service's reader threw, and the bytes are kept for inspection
 */
async function normalize(
  db: Database,
  body: Buffer,
  job: string | null,
  { service: { readDelivery }, number }: Omit<ReceivingService, 'name'>,
): Promise<Buffer | null> {
  const readWith = (inputs: JobInputs | null): { readonly delivery: ServiceDelivery | null } | null => {
    try {
      return { delivery: readOwnDelivery(body, readDelivery, inputs) }
    } catch {
      return null
    }
  }
  const inPath = job === null ? null : await deliveries.findJobInputs(db, { job }, number)
  let read = readWith(inPath)
  const jobId = toJobId(read?.delivery?.jobId)
  if (jobId !== null && inPath?.jobId !== jobId) {
    const named = await deliveries.findJobInputs(db, { jobId }, number)
    // The service may not have named the job of the path yet, if no other has the name.
    if (named !== null || (inPath !== null && inPath.jobId !== null)) read = readWith(named)
  }
  return read && normalizeDelivery(body, read.delivery)
}
