import { randomUUID } from 'node:crypto'
import { type MsRange, abortableDelay, createRng, drawMs } from './rng.ts'
import { type DeliveryOutcome, createDeliveries } from './deliveries.ts'
import { type FaultName, type FaultPoint, faultPointKey, isFaultInjected } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import { type JobInput, createResults, isRejectedInput, makeRequestId } from './results.ts'
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
  readonly point: FaultPoint
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

  const made = (fault: FaultName, job: SandboxJob): boolean => {
    const is = isFaultInjected(fault, job.point, settings())
    if (is) recorder.fault(fault)
    return is
  }
  const pauseFor = (range: MsRange, what: string, job: SandboxJob) =>
    abortableDelay(drawMs(range, settings().seed, `${what} ${faultPointKey(job.point)}`), closing.signal)

  function finish(job: SandboxJob, status: JobOutcome['status'], outcome: JobOutcome['outcome']): void {
    if (!pending.has(job.jobId)) return
    if (outcome === 'acknowledged') recorder.jobs[status] += 1
    else if (outcome !== 'closed') recorder.jobs[outcome] += 1
    const end = { jobId: job.jobId, status, outcome }
    pending.delete(job.jobId)
    ended.set(job.jobId, end)
    const [oldest] = ended.keys()
    if (ended.size > MAX_OUTCOMES && oldest !== undefined) ended.delete(oldest)
    job.firstAnswer.resolve()
    job.end.resolve(end)
  }

  async function deliver(job: SandboxJob): Promise<void> {
    const status = made('job-failed', job) ? 'failed' : 'completed'
    if (job.webhookUrl === null) return finish(job, status, 'nowhere')
    if (made('lost', job)) return finish(job, status, 'lost')
    const results = createResults(job, status === 'failed', settings(), (fault) => recorder.fault(fault))
    const { webhookUrl } = job
    const bodyOf = (changes: object): Buffer =>
      Buffer.from(
        JSON.stringify({ event_id: `evt_${randomUUID()}`, job_id: job.jobId, status, results, ...changes }),
      )
    if (made('progress', job))
      await deliveries.sendUntilAcknowledged(
        webhookUrl,
        bodyOf({ status: 'processing', results: [] }),
        () => {},
      )
    const isInParts = made('in-parts', job)
    const half = isInParts ? Math.ceil(results.length / 2) : 0
    if (isInParts)
      await deliveries.sendUntilAcknowledged(
        webhookUrl,
        bodyOf({ results: results.slice(0, half) }),
        () => {},
      )
    const body = bodyOf({ results: results.slice(half) })
    if (made('bad-signature', job)) {
      const choice = createRng(settings().seed, `signature ${faultPointKey(job.point)}`).between(0, 2)
      await deliveries.sendBadlySigned(job.webhookUrl, body, choice)
    }
    const first = deliveries.sendUntilAcknowledged(job.webhookUrl, body, job.firstAnswer.resolve)
    if (made('duplicate', job)) {
      await pauseFor(settings().duplicateMs, 'duplicate', job)
      await deliveries.sendAgain(job.webhookUrl, body)
    }
    finish(job, status, await first)
  }

  async function runLater(job: SandboxJob): Promise<void> {
    const ms = drawMs(settings().jobDelayMs, settings().seed, `delay ${faultPointKey(job.point)}`)
    await abortableDelay(ms, AbortSignal.any([closing.signal, release.signal]))
    if (made('late', job)) await pauseFor(settings().lateMs, 'late', job)
    if (!closing.signal.aborted) await deliver(job)
  }

  return {
    /** Accepts a job. It stays pending until it is started. */
    accept(inputs: readonly JobInput[], point: FaultPoint, webhookUrl: URL | null): SandboxJob {
      // Random, unlike everything else here: receivers drop an event_id they have seen, so a second sandbox with the
      // same seed would lose its deliveries.
      const jobId = `job_${randomUUID()}`
      const job: SandboxJob = {
        jobId,
        inputs,
        point,
        webhookUrl,
        firstAnswer: Promise.withResolvers(),
        end: Promise.withResolvers(),
      }
      pending.set(jobId, job)
      recorder.jobs.accepted += 1
      return job
    },
    /** The body of the 202 response. */
    accepted(job: SandboxJob): object {
      const { acceptedShape } = settings()
      if (acceptedShape === 'job_id') return { job_id: job.jobId }
      const accepted = job.inputs.flatMap((input, at) =>
        isRejectedInput(input, settings()) ? [] : { input, at },
      )
      return acceptedShape === 'job_id+emails'
        ? {
            job_id: job.jobId,
            requests: accepted
              .map(({ input }) => input.asWritten)
              .toSorted()
              .toReversed(),
          }
        : { job_id: job.jobId, request_ids: accepted.map(({ at }) => makeRequestId(job, at, settings())) }
    },
    isEarly: (job: SandboxJob): boolean => made('early', job),
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
