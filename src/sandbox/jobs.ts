import { randomUUID } from 'node:crypto'
import { createDeliveries } from './deliveries.ts'
import type { Opportunity } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import {
  type SandboxJob,
  type SubmittedInput,
  createResults,
  isRejectedInput,
  makeRequestId,
} from './results.ts'
import { abortableDelay } from './rng.ts'
import type { StatsRecorder } from './stats.ts'

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
