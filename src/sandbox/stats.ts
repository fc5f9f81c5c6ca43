import type { FaultName, SandboxEndpoint } from './faults.ts'
import type { WindowDecision } from './windows.ts'

/** The outcome of one post: the receiver's status, or why there was none. */
export type PostOutcome = number | 'timeout' | 'unreachable' | 'closed'

/** Calls in one window of one key; `key` is its position in the list of keys, from 1. Unix milliseconds. */
interface WindowStats {
  readonly key: number
  readonly starts_at: number
  readonly ends_at: number
  limit: number
  accepted: number
  refused: number
}

/** How often one input was requested. */
interface InputCounts {
  /** Calls that named it, whatever the answer. */
  tried: number
  /** Single lookups answered 200 with a record, 404 or 422. */
  single: number
  /** Jobs accepted with it. */
  bulk: number
  /** Single lookups whose answer did not reach the client, because the connection was gone. */
  unanswered: number
}

export type CountedWork = Exclude<keyof InputCounts, 'tried'>

const MAX_WINDOWS = 10_000
const MAX_REPEATED = 1_000

const emptyCounts = () => ({
  /** Calls by endpoint and status ('dropped' if the connection was dropped). */
  requests: {} as Record<string, Record<string, number>>,
  /** All calls that the rate limit accepted and rejected. */
  calls: { accepted: 0, refused: 0 },
  /** The latest windows, oldest first. */
  windows: [] as WindowStats[],
  inputs: new Map<string, InputCounts>(),
  jobs: {
    accepted: 0,
    /** Acknowledged deliveries with the status completed, or failed. */
    completed: 0,
    failed: 0,
    given_up: 0,
    lost: 0,
    /** Answered 202 without a URL to deliver to. */
    nowhere: 0,
  },
  deliveries: {
    /** All posts that were sent. */
    attempts: 0,
    acknowledged: 0,
    retried: 0,
    badly_signed: 0,
    /** Wrongly signed and answered 2xx: a defect of the receiver. */
    badly_signed_accepted: 0,
    /** Posts by the receiver's status, or 'timeout', 'unreachable', 'closed'. */
    answers: {} as Record<string, number>,
  },
  /** How often each fault was injected. */
  faults: {} as Partial<Record<FaultName, number>>,
})

export type SandboxStats = ReturnType<StatsRecorder['snapshot']>

/** Counts events; a snapshot is a copy that later calls do not change. */
export class StatsRecorder {
  counts = emptyCounts()

  request(endpoint: SandboxEndpoint | 'other', status: number | 'dropped'): void {
    increment((this.counts.requests[endpoint] ??= {}), status)
  }

  fault(name: FaultName): void {
    increment(this.counts.faults, name)
  }

  answer(posted: PostOutcome): void {
    this.counts.deliveries.attempts += 1
    increment(this.counts.deliveries.answers, posted)
  }

  /** Counts a call of a key, of which `position` is the place in the list of keys. */
  verdict(position: number, { window, limit, accepted }: WindowDecision): void {
    const { windows, calls } = this.counts
    let open = windows.findLast(({ key }) => key === position)
    if (open?.starts_at !== window.startsAt) {
      const { startsAt, endsAt } = window
      open = { key: position, starts_at: startsAt, ends_at: endsAt, limit, accepted: 0, refused: 0 }
      windows.push(open)
      if (windows.length > MAX_WINDOWS) windows.shift()
    }
    open.limit = limit
    open[accepted ? 'accepted' : 'refused'] += 1
    calls[accepted ? 'accepted' : 'refused'] += 1
  }

  /** Counts a try of each input; returns how often the first of them was tried before. */
  tried(keys: readonly string[]): number {
    const before = keys[0] === undefined ? 0 : this.#inputCounts(keys[0]).tried
    for (const key of keys) this.#inputCounts(key).tried += 1
    return before
  }

  done(keys: readonly string[], work: CountedWork): void {
    for (const key of keys) this.#inputCounts(key)[work] += 1
  }

  #inputCounts(key: string): InputCounts {
    const { inputs } = this.counts
    let found = inputs.get(key)
    if (found === undefined) {
      found = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
      inputs.set(key, found)
    }
    return found
  }

  snapshot(pending: number, withInputs: boolean) {
    const { inputs, jobs } = this.counts
    return structuredClone({
      ...this.counts,
      inputs: summarizeInputs(inputs, withInputs),
      jobs: { ...jobs, pending },
    })
  }

  reset(): void {
    this.counts = emptyCounts()
  }
}

function increment(counts: Record<string, number>, name: string | number): void {
  counts[name] = (counts[name] ?? 0) + 1
}

function summarizeInputs(counts: ReadonlyMap<string, InputCounts>, withAll: boolean) {
  const sum = {
    distinct: counts.size,
    tried: 0,
    requested_singly: 0,
    requested_in_bulk: 0,
    unanswered: 0,
    /** The maximum for one input, single and bulk lookups together. */
    max_requested: 0,
    /** The maximum that one input cost: answered or unanswered. */
    max_paid: 0,
    paid_more_than_once: 0,
  }
  const repeated: [string, InputCounts][] = []
  for (const [key, { tried, single, bulk, unanswered }] of counts) {
    const requested = single + bulk
    const paid = requested + unanswered
    sum.tried += tried
    sum.requested_singly += single
    sum.requested_in_bulk += bulk
    sum.unanswered += unanswered
    sum.max_requested = Math.max(sum.max_requested, requested)
    sum.max_paid = Math.max(sum.max_paid, paid)
    if (paid > 1) {
      sum.paid_more_than_once += 1
      if (repeated.length < MAX_REPEATED) repeated.push([key, { tried, single, bulk, unanswered }])
    }
  }
  return {
    ...sum,
    /** Inputs requested or billed more than once, at most 1,000. */
    repeated: Object.fromEntries(repeated),
    /** Every input, on demand. */
    ...(withAll && { all: Object.fromEntries(counts) }),
  }
}
