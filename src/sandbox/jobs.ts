import { randomUUID } from 'node:crypto'
import { type DeliveryOutcome, createDeliveries } from './deliveries.ts'
import type { Opportunity } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import { type SubmittedInput, createResults, isRejectedInput, makeRequestId } from './results.ts'
import { abortableDelay } from './rng.ts'
import type { StatsRecorder } from './stats.ts'

export interface SandboxJob {
  readonly jobId: string
  readonly inputs: readonly SubmittedInput[]
  readonly opportunity: Opportunity
  readonly webhookUrl: URL | null
  /** Resolves when the delivery was answered for the first time, or will never be sent. */
  readonly firstAnswer: PromiseWithResolvers<void>
  /** Resolves when the job has ended, however it did. */
  readonly end: PromiseWithResolvers<void>
}

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
    const [firstAnswer, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const job: SandboxJob = { jobId, inputs, opportunity, webhookUrl, firstAnswer, end }
    this.#pending.set(jobId, job)
    this.#recorder.counts.jobs.accepted += 1
    return job
  }

  /** The body of the 202 response. */
  accepted({ jobId, inputs }: SandboxJob): object {
    const options = this.#settings()
    const accepted = inputs.flatMap((input, at) => (isRejectedInput(input, options) ? [] : { input, at }))
    switch (options.acceptedShape) {
      case 'job_id':
        return { job_id: jobId }
      case 'job_id+request_ids':
        return {
          job_id: jobId,
          request_ids: accepted.map(({ at }) => makeRequestId({ jobId, inputs }, at, options)),
        }
      case 'job_id+emails': {
        const emails = accepted.map(({ input }) => input.asWritten)
        return { job_id: jobId, requests: emails.toSorted().toReversed() }
      }
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
    const { jobId, opportunity, webhookUrl: url } = job
    const deliveries = this.#deliveries
    const status = opportunity.injects('job-failed') ? 'failed' : 'completed'
    if (url === null) return this.#finish(job, status, 'nowhere')
    if (opportunity.injects('lost')) return this.#finish(job, status, 'lost')
    const results = createResults(job, status === 'failed', this.#settings())
    const toBody = (changes: object): Buffer =>
      Buffer.from(
        JSON.stringify({ event_id: `evt_${randomUUID()}`, job_id: jobId, status, results, ...changes }),
      )
    if (opportunity.injects('progress'))
      await deliveries.sendUntilAcknowledged(url, toBody({ status: 'processing', results: [] }))
    const half = opportunity.injects('in-parts') ? Math.ceil(results.length / 2) : null
    if (half !== null)
      await deliveries.sendUntilAcknowledged(url, toBody({ results: results.slice(0, half) }))
    const body = toBody({ results: results.slice(half ?? 0) })
    if (opportunity.injects('bad-signature'))
      await deliveries.sendBadlySigned(url, body, opportunity.draw('signature').between(0, 2))
    const first = deliveries.sendUntilAcknowledged(url, body, job.firstAnswer.resolve)
    if (opportunity.injects('duplicate')) {
      const { duplicateMs } = this.#settings()
      await abortableDelay(opportunity.drawMs(duplicateMs, 'duplicate'), this.#closing.signal)
      await deliveries.sendAgain(url, body)
    }
    this.#finish(job, status, await first)
  }

  #finish(
    job: SandboxJob,
    status: 'completed' | 'failed',
    outcome: DeliveryOutcome | 'lost' | 'nowhere',
  ): void {
    if (!this.#pending.delete(job.jobId)) return
    const counts = this.#recorder.counts.jobs
    if (outcome === 'acknowledged') counts[status] += 1
    else if (outcome !== 'closed') counts[outcome] += 1
    job.firstAnswer.resolve()
    job.end.resolve()
  }

  /** Ends the delay of all pending jobs. */
  release(): void {
    this.#release.abort()
    this.#release = new AbortController()
  }

  /** Resolves when no job is pending, including jobs accepted while waiting. */
  async idle(): Promise<void> {
    while (this.pending > 0) await Promise.all([...this.#pending.values()].map((job) => job.end.promise))
  }

  close(): void {
    this.#closing.abort()
    this.#deliveries.close()
    for (const job of this.#pending.values()) this.#finish(job, 'failed', 'closed')
  }
}
