import { randomUUID } from 'node:crypto'
import { type DeliveryOutcome, createDeliveries } from './deliveries.ts'
import type { Opportunity } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import { type JobInput, createResults, isRejectedInput, makeRequestId } from './results.ts'
import { abortableDelay } from './rng.ts'
import type { StatsRecorder } from './stats.ts'

/** How a job ended: the outcome of its delivery, never sent, without a webhook URL, or cut off by close. */
export interface JobOutcome {
  readonly jobId: string
  readonly status: 'completed' | 'failed'
  readonly outcome: DeliveryOutcome | 'lost' | 'nowhere'
}

export interface SandboxJob {
  readonly jobId: string
  readonly inputs: readonly JobInput[]
  readonly opportunity: Opportunity
  readonly webhookUrl: URL | null
  /** Resolves when the delivery was answered for the first time, or will never be sent. */
  readonly firstAnswer: PromiseWithResolvers<void>
  readonly end: PromiseWithResolvers<JobOutcome>
}

const MAX_OUTCOMES = 50_000

export type SandboxJobs = ReturnType<typeof createJobQueue>

/** Accepts jobs, processes them after their delay, and delivers each to its webhook URL. */
export function createJobQueue(settings: () => SandboxOptions, recorder: StatsRecorder) {
  const closing = new AbortController()
  let release = new AbortController()
  const deliveries = createDeliveries(settings, recorder, closing.signal)
  const pending = new Map<string, SandboxJob>()
  /** Oldest first; the oldest are dropped. */
  const ended = new Map<string, JobOutcome>()

  function finish(job: SandboxJob, status: JobOutcome['status'], outcome: JobOutcome['outcome']): void {
    if (!pending.has(job.jobId)) return
    if (outcome === 'acknowledged') recorder.counts.jobs[status] += 1
    else if (outcome !== 'closed') recorder.counts.jobs[outcome] += 1
    const end = { jobId: job.jobId, status, outcome }
    pending.delete(job.jobId)
    ended.set(job.jobId, end)
    const [oldest] = ended.keys()
    if (ended.size > MAX_OUTCOMES && oldest !== undefined) ended.delete(oldest)
    job.firstAnswer.resolve()
    job.end.resolve(end)
  }

  async function deliver(job: SandboxJob): Promise<void> {
    const { jobId, opportunity, webhookUrl: url } = job
    const status = opportunity.injects('job-failed') ? 'failed' : 'completed'
    if (url === null) return finish(job, status, 'nowhere')
    if (opportunity.injects('lost')) return finish(job, status, 'lost')
    const results = createResults(job, status === 'failed', settings())
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
      await abortableDelay(opportunity.drawMs(settings().duplicateMs, 'duplicate'), closing.signal)
      await deliveries.sendAgain(url, body)
    }
    finish(job, status, await first)
  }

  async function runLater(job: SandboxJob): Promise<void> {
    const { opportunity } = job
    await abortableDelay(
      opportunity.drawMs(settings().jobDelayMs, 'delay'),
      AbortSignal.any([closing.signal, release.signal]),
    )
    if (opportunity.injects('late'))
      await abortableDelay(opportunity.drawMs(settings().lateMs, 'late'), closing.signal)
    if (!closing.signal.aborted) await deliver(job)
  }

  return {
    /** Accepts a job. It stays pending until it is started. */
    accept(inputs: readonly JobInput[], opportunity: Opportunity, webhookUrl: URL | null): SandboxJob {
      // Random, unlike everything else here: receivers drop an event_id they have seen, so a second sandbox with the
      // same seed would lose its deliveries.
      const jobId = `job_${randomUUID()}`
      const job: SandboxJob = {
        jobId,
        inputs,
        opportunity,
        webhookUrl,
        firstAnswer: Promise.withResolvers(),
        end: Promise.withResolvers(),
      }
      pending.set(jobId, job)
      recorder.counts.jobs.accepted += 1
      return job
    },
    /** The body of the 202 response. */
    accepted({ jobId, inputs }: SandboxJob): object {
      const options = settings()
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
    },
    /** Starts the job after its delay, without waiting for it. */
    start: (job: SandboxJob): void => void runLater(job),
    /** Processes the job now; resolves when its delivery was answered for the first time. */
    async startNow(job: SandboxJob): Promise<void> {
      void deliver(job)
      await job.firstAnswer.promise
    },
    pending: (): number => pending.size,
    /** Ends the delay of all pending jobs. */
    release(): void {
      release.abort()
      release = new AbortController()
    },
    /** Resolves with the outcome when the job has ended. Rejects for an unknown job. */
    async delivered(jobId: string): Promise<JobOutcome> {
      const end = ended.get(jobId) ?? (await pending.get(jobId)?.end.promise)
      if (end === undefined) throw new Error(`The sandbox has no job ${jobId}.`)
      return end
    },
    /** Resolves when no job is pending, including jobs accepted while waiting. */
    async idle(): Promise<void> {
      while (pending.size > 0) await Promise.all([...pending.values()].map((job) => job.end.promise))
    },
    close(): void {
      closing.abort()
      deliveries.close()
      for (const job of pending.values()) finish(job, 'failed', 'closed')
    },
  }
}
