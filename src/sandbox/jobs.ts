import { randomUUID } from 'node:crypto'
import { chance, drawFrom } from './chance.ts'
import type { Range } from './chance.ts'
import { createDeliveries } from './deliveries.ts'
import type { DeliveryOutcome } from './deliveries.ts'
import { isMade, momentText } from './faults.ts'
import type { FaultName, Moment } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import { pause } from './pause.ts'
import { isRefused, requestIdOf, resultsOf } from './results.ts'
import type { JobInput } from './results.ts'
import type { Recorder } from './stats.ts'

/** How a job ended: how its good delivery did, never sent at all, nowhere to send it, or the sandbox closed. */
export interface JobEnd {
  readonly jobId: string
  readonly status: 'completed' | 'failed'
  readonly outcome: DeliveryOutcome | 'lost' | 'nowhere'
}

export interface Job {
  readonly jobId: string
  readonly inputs: readonly JobInput[]
  readonly moment: Moment
  readonly webhookUrl: URL | null
  /** Resolves when the delivery was answered for the first time, or will never be sent. */
  readonly firstAnswer: PromiseWithResolvers<void>
  readonly end: PromiseWithResolvers<JobEnd>
}

const endsKept = 50_000

export type Jobs = ReturnType<typeof createJobs>

/** Accepts jobs, does them after their delay, and delivers each to its webhook address. */
export function createJobs(settings: () => SandboxOptions, recorder: Recorder) {
  const closing = new AbortController()
  let release = new AbortController()
  const deliveries = createDeliveries(settings, recorder, closing.signal)
  const pending = new Map<string, Job>()
  /** Oldest first; the oldest are forgotten. */
  const ended = new Map<string, JobEnd>()

  const made = (fault: FaultName, job: Job): boolean => {
    const is = isMade(fault, job.moment, settings())
    if (is) recorder.fault(fault)
    return is
  }
  const pauseFor = (range: Range, what: string, job: Job) =>
    pause(drawFrom(range, settings().seed, `${what} ${momentText(job.moment)}`), closing.signal)

  function finish(job: Job, status: JobEnd['status'], outcome: JobEnd['outcome']): void {
    if (!pending.has(job.jobId)) return
    if (outcome === 'acknowledged') recorder.jobs[status] += 1
    else if (outcome !== 'closed') recorder.jobs[outcome] += 1
    const end = { jobId: job.jobId, status, outcome }
    pending.delete(job.jobId)
    ended.set(job.jobId, end)
    const [oldest] = ended.keys()
    if (ended.size > endsKept && oldest !== undefined) ended.delete(oldest)
    job.firstAnswer.resolve()
    job.end.resolve(end)
  }

  async function deliver(job: Job): Promise<void> {
    const status = made('job-failed', job) ? 'failed' : 'completed'
    if (job.webhookUrl === null) return finish(job, status, 'nowhere')
    if (made('lost', job)) return finish(job, status, 'lost')
    const results = resultsOf(job, status === 'failed', settings(), (fault) => recorder.fault(fault))
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
      const choice = chance(settings().seed, `signature ${momentText(job.moment)}`).between(0, 2)
      await deliveries.sendBadlySigned(job.webhookUrl, body, choice)
    }
    const first = deliveries.sendUntilAcknowledged(job.webhookUrl, body, job.firstAnswer.resolve)
    if (made('duplicate', job)) {
      await pauseFor(settings().duplicateMs, 'duplicate', job)
      await deliveries.sendAgain(job.webhookUrl, body)
    }
    finish(job, status, await first)
  }

  async function runLater(job: Job): Promise<void> {
    const ms = drawFrom(settings().jobDelayMs, settings().seed, `delay ${momentText(job.moment)}`)
    await pause(ms, AbortSignal.any([closing.signal, release.signal]))
    if (made('late', job)) await pauseFor(settings().lateMs, 'late', job)
    if (!closing.signal.aborted) await deliver(job)
  }

  return {
    /** Takes a job in; it is pending from here on and must be started. */
    accept(inputs: readonly JobInput[], moment: Moment, webhookUrl: URL | null): Job {
      // Random, unlike everything else here: a receiver drops an event_id that it has seen, so identifiers
      // that a second sandbox with the same seed made again would lose its deliveries.
      const jobId = `job_${randomUUID()}`
      const job: Job = {
        jobId,
        inputs,
        moment,
        webhookUrl,
        firstAnswer: Promise.withResolvers(),
        end: Promise.withResolvers(),
      }
      pending.set(jobId, job)
      recorder.jobs.accepted += 1
      return job
    },
    /** The body of the 202. */
    accepted(job: Job): object {
      const { acceptedShape } = settings()
      if (acceptedShape === 'job_id') return { job_id: job.jobId }
      const accepted = job.inputs.flatMap((input, at) => (isRefused(input, settings()) ? [] : { input, at }))
      return acceptedShape === 'job_id+emails'
        ? {
            job_id: job.jobId,
            requests: accepted
              .map(({ input }) => input.asWritten)
              .toSorted()
              .toReversed(),
          }
        : { job_id: job.jobId, request_ids: accepted.map(({ at }) => requestIdOf(job, at, settings())) }
    },
    isEarly: (job: Job): boolean => made('early', job),
    /** Starts the job after its delay; does not wait for it. */
    start: (job: Job): void => void runLater(job),
    /** Does the job at once; resolves when its delivery was answered for the first time. */
    async startNow(job: Job): Promise<void> {
      void deliver(job)
      await job.firstAnswer.promise
    },
    pending: (): number => pending.size,
    /** Ends the delay of the jobs that are pending. */
    release(): void {
      release.abort()
      release = new AbortController()
    },
    /** Resolves when the job has ended, with how. Rejects for a job that the sandbox does not know. */
    async delivered(jobId: string): Promise<JobEnd> {
      const end = ended.get(jobId) ?? (await pending.get(jobId)?.end.promise)
      if (end === undefined) throw new Error(`The sandbox has no job ${jobId}.`)
      return end
    },
    /** Resolves when no job is pending, those accepted meanwhile included. */
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
