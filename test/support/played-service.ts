import { setTimeout as sleep } from 'node:timers/promises'
import { signWebhook } from '../../src/webhook/signature.ts'
import { answerJson, startLoopback } from './loopback.ts'
import type { ServiceName } from './turn-cases.ts'
import { answerOf, toKey } from './turn-model.ts'

export const PLAYED_SECRET = 'played-secret'

/** No call waits for it. */
const LIMIT = {
  'X-RateLimit-Limit': '1000000',
  'X-RateLimit-Remaining': '999000',
  'X-RateLimit-Reset': String(Math.ceil(Date.now() / 1000) + 86_400),
}

/** For so long a delivery is tried again: the process that posted the job may have been killed. */
const DELIVERY_TRIES = 20
const RETRY_MS = 50

/** Services of any name, which answer what the model expects of them, one by one and in jobs. */
export interface PlayedServices {
  readonly url: string
  /** How often each was requested with each key since the last pass: `a w0r1p0@x.example`. */
  takePass(): Promise<ReadonlyMap<string, number>>
  close(): Promise<void>
}

export async function startPlayedServices(seed: number): Promise<PlayedServices> {
  let calls = new Map<string, number>()
  /** In how many passes before. */
  const passes = new Map<string, number>()
  const deliveries = new Set<Promise<void>>()
  let jobs = 0
  // A call that is made again in a pass is answered as before.
  const lookUp = (name: ServiceName, key: string) =>
    answerOf(seed, name, key, passes.get(`${name} ${key}`) ?? 0)
  const count = (name: ServiceName, key: string): void => {
    const call = `${name} ${key}`
    calls.set(call, (calls.get(call) ?? 0) + 1)
  }
  const toRecord = (name: ServiceName, key: string): object | null => {
    const answer = lookUp(name, key)
    return answer.outcome === 'found'
      ? { id: `${name} ${key}`, confidence: answer.confidence, ...answer.record }
      : null
  }
  const acceptJob = (name: ServiceName, emails: readonly string[], url: string): string => {
    const id = `job-${(jobs += 1)}`
    // What is rejected has no result, and is requested singly then.
    const taken = emails.filter((email) => lookUp(name, toKey(email)).outcome !== 'rejected')
    for (const email of taken) count(name, toKey(email))
    const results = taken.map((email) => ({ request_id: email, data: toRecord(name, toKey(email)) }))
    const delivery = deliver(url, { event_id: `event-${id}`, job_id: id, status: 'completed', results })
    deliveries.add(delivery)
    void delivery.finally(() => deliveries.delete(delivery))
    return id
  }
  const service = await startLoopback(({ url, body }, response) => {
    const name = url.split('/')[1] as ServiceName
    const {
      email,
      linkedin_url: profile,
      emails,
      webhook_url: webhook,
    } = JSON.parse(body) as {
      email?: string
      linkedin_url?: string
      emails?: string[]
      webhook_url?: string
    }
    if (emails !== undefined)
      return answerJson(response, 202, { job_id: acceptJob(name, emails, webhook ?? '') }, LIMIT)
    const key = toKey(email ?? profile ?? '')
    count(name, key)
    const record = toRecord(name, key)
    if (record !== null) return answerJson(response, 200, record, LIMIT)
    const { outcome } = lookUp(name, key)
    answerJson(response, outcome === 'not_found' ? 404 : 422, { error: outcome }, LIMIT)
  })
  return {
    url: service.url,
    takePass: async () => {
      await Promise.all(deliveries)
      const taken = calls
      for (const call of calls.keys()) passes.set(call, (passes.get(call) ?? 0) + 1)
      calls = new Map()
      return taken
    },
    close: async () => {
      await Promise.all(deliveries)
      await service.close()
    },
  }
}

async function deliver(url: string, event: object): Promise<void> {
  const body = JSON.stringify(event)
  const headers = {
    'content-type': 'application/json',
    'x-webhook-signature': signWebhook(body, PLAYED_SECRET),
  }
  for (let tries = 0; tries < DELIVERY_TRIES; tries++) {
    const { ok } = await fetch(url, { method: 'POST', body, headers }).catch(() => ({ ok: false }))
    if (ok) return
    await sleep(RETRY_MS)
  }
}
