import { createServer } from 'node:http'
import { onTestFinished } from 'vitest'
import { readRequest } from '../../src/actions/service-cases.ts'
import { signWebhook } from '../../src/webhook/signature.ts'
import { answerJson, listenOnLoopback } from './loopback.ts'

/** A job that was submitted. */
export interface SubmittedBulk {
  /** From 1. */
  readonly nth: number
  readonly emails: readonly string[]
  readonly webhookUrl: string
}

/** How a service answers. */
export interface BulkBehaviour {
  /** The body of the 202. Default: `{ job_id }`. */
  readonly accept?: (job: SubmittedBulk) => object
  /** What it delivers, and when. */
  readonly deliver: (
    job: SubmittedBulk,
    post: (event: object, url?: string) => Promise<void>,
  ) => Promise<void>
  /** Of a single lookup. Default: the record of the address. */
  readonly answer?: (email: string, nth: number) => { readonly status: number; readonly body: unknown }
}

/** A service of the built-in interface, whose deliveries are the test's. It bills every input that it accepts or answers. */
export interface BulkService {
  readonly url: string
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** How often each address was billed. */
  readonly billed: ReadonlyMap<string, number>
  /** How often each address was asked singly. */
  readonly asked: ReadonlyMap<string, number>
  readonly jobs: readonly SubmittedBulk[]
  /** The answers to its deliveries: `accepted`, `duplicate`, or a status. */
  readonly receipts: readonly string[]
}

/** What a test can recognise: a record says whose it is, and names no address unless it is told to. */
export const recordOf = (email: string): { title: string; phone: string; confidence: number } => ({
  title: `Title of ${email}`,
  phone: `Phone of ${email}`,
  confidence: 0.9,
})

const SECRET = 'bulk-service-secret'

export async function startBulkService(behaviour: BulkBehaviour): Promise<BulkService> {
  const billed = new Map<string, number>()
  const asked = new Map<string, number>()
  const jobs: SubmittedBulk[] = []
  const receipts: string[] = []
  const count = (counts: Map<string, number>, email: string): number => {
    const nth = (counts.get(email) ?? 0) + 1
    counts.set(email, nth)
    return nth
  }
  const deliver = async (event: object, url: string): Promise<void> => {
    const body = JSON.stringify(event)
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', 'x-webhook-signature': signWebhook(body, SECRET) },
    }).catch((error: unknown) => error as Error)
    const isAnswered = response instanceof Response && response.status === 200
    receipts.push(
      isAnswered
        ? ((await response.json()) as { receipt: string }).receipt
        : String(response instanceof Response ? response.status : response.message),
    )
  }
  const server = createServer((request, response) => {
    const send = (status: number, body: unknown): void => {
      answerJson(response, status, body, {
        'X-RateLimit-Limit': '1000000',
        'X-RateLimit-Remaining': '999000',
        'X-RateLimit-Reset': String(Math.ceil(Date.now() / 60_000) * 60),
      })
    }
    void readRequest(request).then(async ({ path, body }) => {
      const {
        email,
        emails,
        webhook_url: webhookUrl,
      } = body as {
        email: string
        emails: string[]
        webhook_url: string
      }
      if (!path.endsWith('/bulk')) {
        const nth = count(asked, email)
        const { status, body: answer } = behaviour.answer?.(email, nth) ?? {
          status: 200,
          body: recordOf(email),
        }
        if (status < 400 || status === 404) count(billed, email)
        return send(status, answer)
      }
      const job = { nth: jobs.length + 1, emails, webhookUrl }
      jobs.push(job)
      for (const one of emails) count(billed, one)
      send(202, behaviour.accept?.(job) ?? { job_id: `job-${job.nth}` })
      return behaviour.deliver(job, (event, url = webhookUrl) => deliver(event, url))
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return {
    url,
    keys: ['key'],
    webhookSecret: SECRET,
    billed,
    asked,
    jobs,
    receipts,
  }
}
