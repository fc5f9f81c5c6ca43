import type { FaultName } from './faults.ts'
import { createInputCounts } from './input-counts.ts'
import type { InputStats } from './input-counts.ts'
import type { Posted } from './posting.ts'
import type { Endpoint } from './questions.ts'
import type { Verdict } from './windows.ts'

/** The calls of one window of one key; `key` is its position in the list of keys, from 1. Unix milliseconds. */
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
  /** Delivered with the status completed, or failed, and acknowledged. */
  completed: number
  failed: number
  given_up: number
  lost: number
  /** Answered 202 with nowhere to deliver to. */
  nowhere: number
}

interface DeliveryStats {
  /** Posts sent, of every kind. */
  attempts: number
  acknowledged: number
  retried: number
  duplicated: number
  badly_signed: number
  /** Badly signed and yet answered 2xx: a receiver's defect. */
  badly_signed_accepted: number
  /** Posts by the receiver's status, or 'timeout', 'unreachable', 'closed'. */
  answers: Record<string, number>
}

export interface Stats {
  /** Calls by endpoint and status ('dropped' where the connection was dropped). */
  readonly requests: Record<string, Record<string, number>>
  /** Calls that the rate limit accepted and refused, in all. */
  readonly calls: { readonly accepted: number; readonly refused: number }
  /** The latest windows, oldest first. */
  readonly windows: readonly WindowStats[]
  readonly inputs: InputStats
  readonly jobs: JobStats & { readonly pending: number }
  readonly deliveries: DeliveryStats
  /** How often each fault was made. */
  readonly faults: Readonly<Partial<Record<FaultName, number>>>
}

const windowsKept = 10_000

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
    inputs: createInputCounts(),
  }
}

export type Recorder = ReturnType<typeof createRecorder>

/** Counts what happens; a snapshot is a copy that later calls do not change. */
export function createRecorder() {
  let counts = emptyCounts()
  return {
    /** What is counted is reached through here, so that a reset replaces all of it at once. */
    get inputs() {
      return counts.inputs
    },
    get jobs() {
      return counts.jobs
    },
    get deliveries() {
      return counts.deliveries
    },
    request(endpoint: Endpoint | 'other', status: number | 'dropped'): void {
      const byStatus = (counts.requests[endpoint] ??= {})
      byStatus[status] = (byStatus[status] ?? 0) + 1
    },
    fault(name: FaultName): void {
      counts.faults[name] = (counts.faults[name] ?? 0) + 1
    },
    answer(posted: Posted): void {
      counts.deliveries.attempts += 1
      counts.deliveries.answers[posted] = (counts.deliveries.answers[posted] ?? 0) + 1
    },
    unlimited(): void {
      counts.calls.accepted += 1
    },
    verdict(key: string, position: number, { window, limit, accepted }: Verdict): void {
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
        // Cut rarely, because cutting copies the list.
        if (counts.windows.length > 2 * windowsKept) counts.windows = counts.windows.slice(-windowsKept)
      }
      open.limit = limit
      open[accepted ? 'accepted' : 'refused'] += 1
      counts.calls[accepted ? 'accepted' : 'refused'] += 1
    },
    snapshot(pending: number, withInputs: boolean): Stats {
      const { requests, calls, windows, jobs, deliveries, faults, inputs } = counts
      return structuredClone({
        requests,
        calls,
        windows: windows.slice(-windowsKept),
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
