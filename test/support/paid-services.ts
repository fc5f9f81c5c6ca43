import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { onTestFinished } from 'vitest'
import { readRequest, type SentRequest } from '../../src/actions/service-cases.ts'
import { answerJson, listenOnLoopback } from './loopback.ts'

/** A stand-in of a service that people pay for, made from its documentation. It counts what it bills and what it refuses. */
export interface PaidService {
  readonly url: string
  /** How often each input was billed. */
  readonly billed: ReadonlyMap<string, number>
  /** Calls by path, identifiers left out. */
  readonly calls: ReadonlyMap<string, number>
  /** Calls over the limit. */
  readonly refused: () => number
}

export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

type Play = (request: SentRequest, bill: (...inputs: string[]) => void) => Answer | Promise<Answer>

/** Inputs that were billed more than once. */
export const billedTwice = ({ billed }: Pick<PaidService, 'billed'>): string[] =>
  [...billed].filter(([, times]) => times > 1).map(([input]) => input)

/** Some people are unknown, always the same. */
export const isKnown = (input: string): boolean =>
  [...input].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 4 !== 0

/** The limit of a key: so many calls in a window that starts with the clock. */
class Limit {
  readonly #calls: number
  readonly #ms: number
  #endsAt = 0
  #used = 0
  refused = 0

  constructor(calls: number, ms: number) {
    this.#calls = calls
    this.#ms = ms
  }

  take(): {
    readonly isAllowed: boolean
    readonly left: number
    readonly endsAt: number
    readonly calls: number
  } {
    const now = Date.now()
    if (now >= this.#endsAt) [this.#endsAt, this.#used] = [Math.ceil((now + 1) / this.#ms) * this.#ms, 0]
    const isAllowed = ++this.#used <= this.#calls
    if (!isAllowed) this.refused++
    return {
      isAllowed,
      left: Math.max(0, this.#calls - this.#used),
      endsAt: this.#endsAt,
      calls: this.#calls,
    }
  }
}

/** A stand-in of a test's own. */
export async function playService(
  play: Play,
  limit = new Limit(Number.POSITIVE_INFINITY, 1),
): Promise<PaidService> {
  const billed = new Map<string, number>()
  const calls = new Map<string, number>()
  const count = (counts: Map<string, number>, key: string): void =>
    void counts.set(key, (counts.get(key) ?? 0) + 1)
  const server = createServer((request, response) => {
    void readRequest(request)
      .then((read) => {
        count(calls, read.path.replace(/\/e-\d+$/, ''))
        return play(read, (...inputs) => inputs.forEach((input) => count(billed, input)))
      })
      .then(({ status = 200, headers = {}, body }) => {
        answerJson(response, status, body, headers)
      })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { url, billed, calls, refused: () => limit.refused }
}

/**
 * People Data Labs: limits as a map, Reset as a time without a zone, and a hundred people in a call, answered in another
 * order, each with a status of its own. Of one in twenty it says that it failed, and leaves another out.
 */
export function playPeopleDataLabs(limit: Limit = new Limit(80, 2_000)): Promise<PaidService> {
  const failed = new Set<string>()
  return playService(({ path, query, body }, bill) => {
    const { isAllowed, left, endsAt, calls } = limit.take()
    const headers = {
      'x-ratelimit-limit': `{'minute': ${calls}}`,
      'x-ratelimit-remaining': `{'minute': ${left}}`,
      'x-ratelimit-reset': new Date(endsAt).toISOString().slice(0, 19),
    }
    if (!isAllowed) return { status: 429, headers, body: { status: 429 } }
    const find = (input: string) => {
      if (!isKnown(input)) return { status: 404, error: { type: 'not_found' } }
      bill(input)
      return { status: 200, likelihood: 9, data: { job_title: 'analyst', mobile_phone: '+15550100' } }
    }
    if (path === '/v5/company/enrich') {
      const input = query['website'] ?? ''
      const { status } = find(input)
      return {
        status,
        headers,
        body: { status, likelihood: 9, industry: 'machinery', employee_count: 12, website: input },
      }
    }
    if (path !== '/v5/person/bulk') {
      const one = find(query['email'] ?? query['profile'] ?? `${query['name']}, ${query['company']}`)
      return { status: one.status, headers, body: one }
    }
    const { requests } = body as { requests: { params: { email: string }; metadata: object }[] }
    const answers = requests.flatMap(({ params: { email }, metadata }, n) => {
      if (n % 20 === 7) return []
      if (n % 20 !== 13 || failed.has(email)) return [{ ...find(email), metadata }]
      failed.add(email)
      return [{ status: 500, metadata }]
    })
    return { headers, body: answers.toReversed() }
  }, limit)
}

/** Apollo: ten people in a call, in the order of the inputs, null where nobody was found. */
export function playApollo(limit: Limit = new Limit(300, 60_000)): Promise<PaidService> {
  return playService(({ path, query, body }, bill) => {
    const { isAllowed, left, calls } = limit.take()
    const headers = { 'x-rate-limit-minute': String(calls), 'x-minute-requests-left': String(left) }
    if (!isAllowed) return { status: 429, headers, body: { message: 'too many requests' } }
    const find = (input: string) => {
      if (!isKnown(input)) return null
      bill(input)
      // Another address than the one that was sent would contradict the order of the whole answer.
      const email = input.includes('@') ? input : `work-${input.length}@apollo.example`
      return { id: input, title: 'Analyst', email }
    }
    if (path === '/api/v1/people/match')
      return {
        headers,
        body: {
          person: find(
            query['email'] ?? query['linkedin_url'] ?? `${query['name']}, ${query['organization_name']}`,
          ),
        },
      }
    const { details } = body as { details: { email: string }[] }
    if (details.length > 10) return { status: 422, headers, body: { error: 'more than 10' } }
    return { headers, body: { status: 'success', matches: details.map(({ email }) => find(email)) } }
  }, limit)
}

/** The body of a delivery, and of the answer to a poll. */
export interface FullEnrichJob {
  readonly id: string
  readonly status: string
  readonly data: readonly { readonly input: { readonly email: string }; readonly profile?: object }[]
}

/**
 * FullEnrich: jobs whose results come by a signed webhook, and can be fetched. No header tells the limit.
 * @param options.lost whether the delivery of a job, by its number from 1, is lost
 */
export async function playFullEnrich(options: {
  readonly lost: (job: number) => boolean
  readonly limit?: Limit
}): Promise<
  PaidService & {
    readonly receipts: readonly Promise<number>[]
    readonly fetched: () => number
    readonly jobs: () => number
  }
> {
  const { lost, limit = new Limit(60, 60_000) } = options
  const jobs = new Map<string, FullEnrichJob & { polls: number }>()
  const receipts: Promise<number>[] = []
  let fetched = 0
  const path = '/api/v2/contact/reverse/email/bulk'
  const service = await playService((request, bill) => {
    if (!limit.take().isAllowed) return { status: 429, body: { code: 'error.rate_limit' } }
    if (request.path !== path) {
      const job = jobs.get(request.path.slice(path.length + 1))
      if (job === undefined) return { status: 404, body: { code: 'error.not_found' } }
      const { polls, ...results } = job
      job.polls++
      if (polls === 0) return { body: { ...results, status: 'IN_PROGRESS', data: [] } }
      fetched++
      return { body: results }
    }
    const { webhook_url: webhookUrl, data } = request.body as {
      webhook_url?: string
      data: { email: string }[]
    }
    const results = data.map(({ email }) => {
      if (!isKnown(email)) return { input: { email }, custom: { email } }
      bill(email)
      const profile = { first_name: 'Ada', employment: { current: { title: 'Analyst' } } }
      return { input: { email }, custom: { email }, profile }
    })
    const id = `e-${jobs.size + 1}`
    const job = { id, status: 'FINISHED', data: results }
    jobs.set(id, { ...job, polls: 0 })
    if (webhookUrl !== undefined && !lost(jobs.size)) {
      const text = JSON.stringify(job)
      const deliver = async (signature: string): Promise<number> => {
        const headers = { 'content-type': 'application/json', 'X-Signature-SHA1': signature }
        return (await fetch(webhookUrl, { method: 'POST', headers, body: text })).status
      }
      const signature = createHmac('sha1', 'key-1').update(text).digest('hex')
      // Once forged, once right, and once more as a retry.
      receipts.push(
        deliver('0'.repeat(40)),
        deliver(signature).then(async () => deliver(signature)),
      )
    }
    return { body: { enrichment_id: id } }
  }, limit)
  return { ...service, receipts, fetched: () => fetched, jobs: () => jobs.size }
}
