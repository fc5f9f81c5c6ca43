import type { FaultName } from './faults.ts'
import type { PostOutcome } from './webhook-post.ts'
import type { SandboxEndpoint } from './requests.ts'
import type { WindowDecision } from './windows.ts'

/** Calls in one window of one key; `key` is its position in the list of keys, from 1. Unix milliseconds. */
interface WindowStats {
  readonly key: number
  readonly starts_at: number
  readonly ends_at: number
  limit: number
  accepted: number
  refused: number
}

interface JobStats {
  accepted: number
  /** Acknowledged deliveries with the status completed, or failed. */
  completed: number
  failed: number
  given_up: number
  lost: number
  /** Answered 202 without a URL to deliver to. */
  nowhere: number
}

interface DeliveryStats {
  /** All posts that were sent. */
  attempts: number
  acknowledged: number
  retried: number
  duplicated: number
  badly_signed: number
  /** Wrongly signed and answered 2xx: a defect of the receiver. */
  badly_signed_accepted: number
  /** Posts by the receiver's status, or 'timeout', 'unreachable', 'closed'. */
  answers: Record<string, number>
}

export interface SandboxStats {
  /** Calls by endpoint and status ('dropped' if the connection was dropped). */
  readonly requests: Record<string, Record<string, number>>
  /** All calls that the rate limit accepted and rejected. */
  readonly calls: { readonly accepted: number; readonly refused: number }
  /** The latest windows, oldest first. */
  readonly windows: readonly WindowStats[]
  readonly inputs: InputStats
  readonly jobs: JobStats & { readonly pending: number }
  readonly deliveries: DeliveryStats
  /** How often each fault was injected. */
  readonly faults: Readonly<Partial<Record<FaultName, number>>>
}

const MAX_WINDOWS = 10_000

function emptyCounts() {
  const requests: Record<string, Record<string, number>> = {}
  const jobs: JobStats = { accepted: 0, completed: 0, failed: 0, given_up: 0, lost: 0, nowhere: 0 }
  const deliveries: DeliveryStats = {
    attempts: 0,
    acknowledged: 0,
    retried: 0,
    duplicated: 0,
    badly_signed: 0,
    badly_signed_accepted: 0,
    answers: {},
  }
  const faults: Partial<Record<FaultName, number>> = {}
  const windows: WindowStats[] = []
  return {
    requests,
    jobs,
    deliveries,
    faults,
    windows,
    open: new Map<string, WindowStats>(),
    calls: { accepted: 0, refused: 0 },
    inputs: createInputCounter(),
  }
}

export type StatsRecorder = ReturnType<typeof createStatsRecorder>

/** Counts events; a snapshot is a copy that later calls do not change. */
export function createStatsRecorder() {
  let counts = emptyCounts()
  return {
    /** Getters, so that a reset replaces all counts at once. */
    get inputs() {
      return counts.inputs
    },
    get jobs() {
      return counts.jobs
    },
    get deliveries() {
      return counts.deliveries
    },
    request(endpoint: SandboxEndpoint | 'other', status: number | 'dropped'): void {
      const byStatus = (counts.requests[endpoint] ??= {})
      byStatus[status] = (byStatus[status] ?? 0) + 1
    },
    fault(name: FaultName): void {
      counts.faults[name] = (counts.faults[name] ?? 0) + 1
    },
    answer(posted: PostOutcome): void {
      counts.deliveries.attempts += 1
      counts.deliveries.answers[posted] = (counts.deliveries.answers[posted] ?? 0) + 1
    },
    unlimited(): void {
      counts.calls.accepted += 1
    },
    verdict(key: string, position: number, { window, limit, accepted }: WindowDecision): void {
      let open = counts.open.get(key)
      if (open?.starts_at !== window.startsAt) {
        open = {
          key: position,
          starts_at: window.startsAt,
          ends_at: window.endsAt,
          limit,
          accepted: 0,
          refused: 0,
        }
        counts.open.set(key, open)
        counts.windows.push(open)
        // Trimmed rarely, because trimming copies the list.
        if (counts.windows.length > 2 * MAX_WINDOWS) counts.windows = counts.windows.slice(-MAX_WINDOWS)
      }
      open.limit = limit
      open[accepted ? 'accepted' : 'refused'] += 1
      counts.calls[accepted ? 'accepted' : 'refused'] += 1
    },
    snapshot(pending: number, withInputs: boolean): SandboxStats {
      const { requests, calls, windows, jobs, deliveries, faults, inputs } = counts
      return structuredClone({
        requests,
        calls,
        windows: windows.slice(-MAX_WINDOWS),
        inputs: inputs.snapshot(withInputs),
        jobs: { ...jobs, pending },
        deliveries,
        faults,
      })
    },
    reset(): void {
      counts = emptyCounts()
    },
  }
}

/** How often one input was requested. */
export interface InputCounts {
  /** Calls that named it, whatever the answer. */
  tried: number
  /** Single lookups answered 200 with a record, 404 or 422. */
  single: number
  /** Jobs accepted with it. */
  bulk: number
  /** Single lookups whose answer did not reach the client, because the connection was gone. */
  unanswered: number
}

export interface InputStats {
  readonly distinct: number
  readonly tried: number
  readonly requested_singly: number
  readonly requested_in_bulk: number
  readonly unanswered: number
  /** The maximum for one input, single and bulk lookups together. */
  readonly max_requested: number
  readonly requested_more_than_once: number
  /** The maximum that one input cost: answered or unanswered. */
  readonly max_paid: number
  readonly paid_more_than_once: number
  /** Inputs requested or billed more than once, at most 1,000. */
  readonly repeated: Readonly<Record<string, InputCounts>>
  /** Every input, on demand. */
  readonly all?: Readonly<Record<string, InputCounts>>
}

export type CountedWork = Exclude<keyof InputCounts, 'tried'>

const MAX_REPEATED = 1_000

export function createInputCounter() {
  const counts = new Map<string, InputCounts>()
  const of = (key: string): InputCounts => {
    let found = counts.get(key)
    if (found === undefined) {
      found = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
      counts.set(key, found)
    }
    return found
  }
  return {
    /** Counts a try of each input; returns how often the first of them was tried before. */
    tried(keys: readonly string[]): number {
      const before = keys[0] === undefined ? 0 : of(keys[0]).tried
      for (const key of keys) of(key).tried += 1
      return before
    },
    done(keys: readonly string[], work: CountedWork): void {
      for (const key of keys) of(key)[work] += 1
    },
    snapshot(withAll: boolean): InputStats {
      const sum = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
      const more = { max_requested: 0, requested_more_than_once: 0, max_paid: 0, paid_more_than_once: 0 }
      const repeated: [string, InputCounts][] = []
      for (const [key, one] of counts) {
        for (const name of ['tried', 'single', 'bulk', 'unanswered'] as const) sum[name] += one[name]
        const requested = one.single + one.bulk
        const paid = requested + one.unanswered
        more.max_requested = Math.max(more.max_requested, requested)
        more.max_paid = Math.max(more.max_paid, paid)
        if (requested > 1) more.requested_more_than_once += 1
        if (paid > 1) more.paid_more_than_once += 1
        if (paid > 1 && repeated.length < MAX_REPEATED) repeated.push([key, one])
      }
      return {
        distinct: counts.size,
        tried: sum.tried,
        requested_singly: sum.single,
        requested_in_bulk: sum.bulk,
        unanswered: sum.unanswered,
        ...more,
        repeated: Object.fromEntries(repeated),
        ...(withAll && { all: Object.fromEntries(counts) }),
      }
    },
  }
}
