import type { FaultName } from './options.ts'
import type { RateLimit } from './windows.ts'

/** How often one input was requested. */
interface InputCounts {
  /** Calls that named it, whatever the answer. */
  tried: number
  /** Single lookups answered 200 with a record, or 404. */
  single: number
  /** Jobs accepted with it. */
  bulk: number
  /** Single lookups whose answer did not reach the client, because the connection was gone. */
  unanswered: number
}

export type CountedWork = Exclude<keyof InputCounts, 'tried'>

const emptyCounts = () => ({
  /** Calls by endpoint and status ('dropped' if the connection was dropped). */
  requests: {} as Record<string, Record<string, number>>,
  /** All calls that the rate limit accepted and refused. */
  calls: { accepted: 0, refused: 0 },
  /** Jobs that were accepted, and whose delivery with the status completed, or failed, was acknowledged. */
  jobs: { accepted: 0, completed: 0, failed: 0 },
  deliveries: {
    /** Posts by the receiver's status, or 'timeout', 'unreachable', 'closed'. */
    answers: {} as Record<string, number>,
    badly_signed: 0,
    /** Wrongly signed and answered 2xx: a defect of the receiver. */
    badly_signed_accepted: 0,
  },
  /** How often each fault was injected. */
  faults: {} as Partial<Record<FaultName, number>>,
})

export type SandboxStats = ReturnType<StatsRecorder['snapshot']>

/** Adds one to the count of a name. */
export function increment(counts: Record<string, number>, name: string | number): void {
  counts[name] = (counts[name] ?? 0) + 1
}

/** Counts events; a snapshot is a copy that later calls do not change. */
export class StatsRecorder {
  counts = emptyCounts()
  #inputs = new Map<string, InputCounts>()

  request(endpoint: string, status: number | 'dropped'): void {
    increment((this.counts.requests[endpoint] ??= {}), status)
  }

  /** Counts a try of each input; returns how often the first of them was tried before. */
  tried(keys: readonly string[]): number {
    const before = keys[0] === undefined ? 0 : (this.#inputs.get(keys[0])?.tried ?? 0)
    this.#add(keys, 'tried')
    return before
  }

  done(keys: readonly string[], work: CountedWork): void {
    this.#add(keys, work)
  }

  #add(keys: readonly string[], what: keyof InputCounts): void {
    for (const key of keys) {
      let counts = this.#inputs.get(key)
      if (counts === undefined) {
        counts = { tried: 0, single: 0, bulk: 0, unanswered: 0 }
        this.#inputs.set(key, counts)
      }
      counts[what] += 1
    }
  }

  snapshot(pending: number, { windows }: RateLimit, withInputs: boolean) {
    const { jobs } = this.counts
    return structuredClone({
      ...this.counts,
      windows,
      jobs: { ...jobs, pending },
      inputs: {
        ...summarizeInputs([...this.#inputs.values()]),
        ...(withInputs && { all: Object.fromEntries(this.#inputs) }),
      },
    })
  }

  reset(): void {
    this.counts = emptyCounts()
    this.#inputs = new Map()
  }
}

function summarizeInputs(counts: readonly InputCounts[]) {
  const requested = counts.map(({ single, bulk }) => single + bulk)
  const paid = counts.map(({ single, bulk, unanswered }) => single + bulk + unanswered)
  const sum = (work: CountedWork): number => counts.reduce((total, count) => total + count[work], 0)
  const greatest = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.max(a, b), 0)
  return {
    distinct: counts.length,
    requested_singly: sum('single'),
    requested_in_bulk: sum('bulk'),
    unanswered: sum('unanswered'),
    /** The maximum for one input, single and bulk lookups together. */
    max_requested: greatest(requested),
    /** The maximum that one input cost: answered or unanswered. */
    max_paid: greatest(paid),
    paid_more_than_once: paid.filter((times) => times > 1).length,
  }
}
