import { randomUUID, createHmac } from 'node:crypto'
import type { Opportunity, SandboxOptions } from './options.ts'
import { abortableDelay, createRng, seededIdentifier } from './rng.ts'
import { type StatsRecorder, increment } from './stats.ts'
import { type CompanyLookup, findCompany, type PersonLookup, findPerson, toPersonRecord } from './people.ts'
import { canonicalEmail } from './requests.ts'
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'

/** Accepts jobs, processes them after their delay, and delivers each to its webhook URL. */
export class JobQueue {
  readonly #settings: () => SandboxOptions
  readonly #recorder: StatsRecorder
  readonly #closing = new AbortController()
  readonly #deliveries: ReturnType<typeof createDeliveries>
  readonly #pending = new Map<string, SandboxJob>()
  #release = new AbortController()

  constructor(settings: () => SandboxOptions, recorder: StatsRecorder) {
    this.#settings = settings
    this.#recorder = recorder
    this.#deliveries = createDeliveries(settings, recorder, this.#closing.signal)
  }

  get pending(): number {
    return this.#pending.size
  }

  /** Accepts a job. It stays pending until it is started. */
  accept(inputs: readonly SubmittedInput[], opportunity: Opportunity, webhookUrl: URL | null): SandboxJob {
    // Random, unlike everything else here: receivers drop an event_id they have seen, so a second sandbox with the
    // same seed would lose its deliveries.
    const jobId = `job_${randomUUID()}`
    const firstAnswer = Promise.withResolvers<void>()
    const job: SandboxJob = { jobId, inputs, opportunity, webhookUrl, firstAnswer }
    this.#pending.set(jobId, job)
    this.#recorder.counts.jobs.accepted += 1
    return job
  }

  /** The body of the 202 response. */
  accepted(job: SandboxJob): object {
    const options = this.#settings()
    const { jobId, inputs } = job
    const accepted = inputs.flatMap((input, at) => (isRejectedInput(input, options) ? [] : { input, at }))
    const emails = accepted.map(({ input }) => input.asWritten)
    switch (options.acceptedShape) {
      case 'job_id':
        return { job_id: jobId }
      case 'job_id+request_ids':
        return { job_id: jobId, request_ids: accepted.map(({ at }) => makeRequestId(job, at, options)) }
      case 'job_id+emails':
        return { job_id: jobId, requests: emails.toSorted().toReversed() }
    }
  }

  /** Processes the job after its delay. */
  async start(job: SandboxJob): Promise<void> {
    const { opportunity } = job
    const closing = this.#closing.signal
    await abortableDelay(
      opportunity.drawMs(this.#settings().jobDelayMs, 'delay'),
      AbortSignal.any([closing, this.#release.signal]),
    )
    if (!closing.aborted) await this.#deliver(job)
  }

  /** Processes the job now; resolves when its delivery was answered for the first time. */
  async startNow(job: SandboxJob): Promise<void> {
    void this.#deliver(job)
    await job.firstAnswer.promise
  }

  async #deliver(job: SandboxJob): Promise<void> {
    const { opportunity, webhookUrl } = job
    const status = opportunity.injects('job-failed') ? 'failed' : 'completed'
    const isSent = webhookUrl !== null && !opportunity.injects('lost')
    const isAcknowledged = isSent && (await this.#send(job, webhookUrl, status))
    if (isAcknowledged) this.#recorder.counts.jobs[status] += 1
    this.#pending.delete(job.jobId)
    job.firstAnswer.resolve()
  }

  async #send(job: SandboxJob, url: URL, status: 'completed' | 'failed'): Promise<boolean> {
    const { jobId, opportunity } = job
    const deliveries = this.#deliveries
    const results = createResults(job, status === 'failed', this.#settings())
    const toBody = (changes: object): Buffer =>
      Buffer.from(
        JSON.stringify({ event_id: `evt_${randomUUID()}`, job_id: jobId, status, results, ...changes }),
      )
    if (opportunity.injects('progress'))
      await deliveries.sendUntilAcknowledged(url, toBody({ status: 'processing', results: [] }))
    const half = opportunity.injects('in-parts') ? Math.ceil(results.length / 2) : 0
    if (half > 0) await deliveries.sendUntilAcknowledged(url, toBody({ results: results.slice(0, half) }))
    const body = toBody({ results: results.slice(half) })
    if (opportunity.injects('bad-signature')) await deliveries.sendBadlySigned(url, body)
    const again = opportunity.injects('duplicate') ? deliveries.send(url, body) : null
    const isAcknowledged = await deliveries.sendUntilAcknowledged(url, body, job.firstAnswer.resolve)
    await again
    return isAcknowledged
  }

  /** Ends the delay of all pending jobs. */
  release(): void {
    this.#release.abort()
    this.#release = new AbortController()
  }

  /** Ends the deliveries; pending jobs never arrive. */
  close(): void {
    this.#closing.abort()
    this.#deliveries.close()
  }
}

/** One input of a job: the lookup, and the text that the client sent. */
export interface SubmittedInput {
  readonly lookup: PersonLookup | CompanyLookup
  readonly asWritten: string
}

/** One item of a delivery's results. */
interface DeliveryResult {
  readonly request_id: string
  readonly data: object | null
}

/** An accepted job. */
export interface SandboxJob {
  readonly jobId: string
  readonly inputs: readonly SubmittedInput[]
  readonly opportunity: Opportunity
  readonly webhookUrl: URL | null
  /** Resolves when the delivery was answered for the first time, or will never be sent. */
  readonly firstAnswer: PromiseWithResolvers<void>
}

export function toEmailInput(email: string): SubmittedInput {
  return { lookup: { kind: 'email', key: canonicalEmail(email) ?? email }, asWritten: email }
}

/** The record of a person or a company; undefined if there is no match. */
export function findRecord(
  lookup: PersonLookup | CompanyLookup,
  options: SandboxOptions,
): object | undefined {
  return lookup.kind === 'domain' ? findCompany(lookup, options) : findPerson(lookup, options)
}

function makeRequestId(
  { jobId, inputs }: SandboxJob,
  at: number,
  { requestIds }: Pick<SandboxOptions, 'requestIds'>,
): string {
  const written = inputs[at]?.asWritten
  if (requestIds === 'email' && written !== undefined) return written
  return `req_${seededIdentifier(at, jobId)}`
}

/**
 * The data of a result without a match. The interface does not define it, so null, an empty object and an object
 * without a confidence all occur.
 */
function emptyResult(lookup: PersonLookup | CompanyLookup, seed: number): object | null {
  const { key, kind } = lookup
  return createRng(seed, `nothing ${key}`).pick([null, {}, kind === 'email' ? { email: key } : null])
}

/** A result for an input that the job did not contain. */
function strangerResult(job: SandboxJob, options: SandboxOptions): DeliveryResult {
  const at = job.inputs.length
  const email = `stranger.${seededIdentifier(at, job.opportunity.key)}@elsewhere.example`
  return {
    request_id: options.requestIds === 'email' ? email : makeRequestId(job, at, options),
    data: toPersonRecord({ kind: 'email', key: email }, options),
  }
}

/** Whether the service rejects this email when it accepts a job. */
function isRejectedInput(
  { lookup }: SubmittedInput,
  options: Pick<SandboxOptions, 'refusedShare' | 'seed'>,
): boolean {
  const { refusedShare, seed } = options
  return refusedShare > 0 && createRng(seed, `refused ${lookup.key}`).below(refusedShare)
}

/** The results that a job delivers: one per input, except for injected faults. */
function createResults(
  job: SandboxJob,
  isFailed: boolean,
  options: SandboxOptions,
): readonly DeliveryResult[] {
  if (isFailed && options.failedResults === 'none') return []
  const { opportunity } = job
  const part = opportunity.draw('part')
  const results = job.inputs.flatMap((input, at): DeliveryResult[] => {
    const { lookup } = input
    const isLeftOut =
      isRejectedInput(input, options) ||
      (isFailed && part.below(0.5)) ||
      opportunity.ofInput(lookup.key).injects('missing-result')
    if (isLeftOut) return []
    const data = findRecord(lookup, options) ?? emptyResult(lookup, options.seed)
    return [{ request_id: makeRequestId(job, at, options), data }]
  })
  if (opportunity.injects('foreign-result')) results.push(strangerResult(job, options))
  if (!opportunity.injects('shuffle')) return results
  const draw = opportunity.draw('shuffle')
  const places = new Map(results.map((result) => [result, draw.next()]))
  return results.toSorted((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0))
}

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
