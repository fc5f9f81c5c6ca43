import type { FaultPlan, FaultShares } from './faults.ts'
import type { MsRange } from './rng.ts'

/** All options of the sandbox. All but `port` can change while it runs. */
export interface SandboxOptions {
  /** 0 picks a free port. */
  readonly port: number
  /** Active keys; remove one to revoke it. */
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** Determines records, faults and delays. */
  readonly seed: number

  /** Calls per window and key; null means no limit and no rate-limit headers. */
  readonly limit: number | null
  readonly windowMs: number
  /** More 429 responses than this in one window ban the key for `banMs`: 403 without a time; null never bans. */
  readonly banAfter: number | null
  readonly banMs: number

  /** Delay between counting a call and answering it. */
  readonly latencyAfterMs: MsRange

  /** Share of inputs without a match. */
  readonly notFoundShare: number
  /** Share of person records that lack any one field (a phone twice as often). */
  readonly missingShare: number

  /**
   * The body of a 202: the job's identifier, also one request_id per accepted email in their order, or the accepted
   * emails in reverse alphabetical order.
   */
  readonly acceptedShape: 'job_id' | 'job_id+request_ids' | 'job_id+emails'
  /** Share of a job's emails that are rejected on acceptance: no request_id, no result. */
  readonly refusedShare: number
  /** The form of a request_id: made up, or the email as sent. */
  readonly requestIds: 'opaque' | 'email'
  /** Delay between the 202 and the delivery. */
  readonly jobDelayMs: MsRange
  /** Delays before each retry of a failed delivery; after the last one it is given up. */
  readonly retryDelaysMs: readonly number[]
  /** What a failed job delivers: no results, or those of some inputs. */
  readonly failedResults: 'none' | 'part'

  readonly faults: FaultShares
  /** Decides single faults, in tests. */
  readonly plan: FaultPlan | null
}

export const DEFAULT_OPTIONS: SandboxOptions = {
  port: 0,
  keys: ['sandbox-key'],
  webhookSecret: 'sandbox-webhook-secret',
  seed: 1,
  limit: null,
  windowMs: 10_000,
  banAfter: null,
  banMs: 60_000,
  latencyAfterMs: 0,
  notFoundShare: 0.125,
  missingShare: 0.15,
  acceptedShape: 'job_id',
  refusedShare: 0,
  requestIds: 'opaque',
  jobDelayMs: [200, 1_000],
  retryDelaysMs: [500, 2_000, 5_000, 15_000],
  failedResults: 'none',
  faults: {},
  plan: null,
}
