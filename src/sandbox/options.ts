import type { MsRange } from './rng.ts'
import type { FaultShares, FaultPlan } from './faults.ts'

/** The ways in which a key can be carried (service-interface.md, Authentication 1 and 5). */
export const SANDBOX_AUTH_STYLES = ['bearer', 'x-api-key', 'basic', 'query'] as const
export type SandboxAuthStyle = (typeof SANDBOX_AUTH_STYLES)[number]

/**
 * Everything that can be chosen about the sandbox. All but `host` and `port` can be changed while it runs.
 * Where service-interface.md says "not shown", there is an option for each reasonable reading.
 */
export interface SandboxOptions {
  /** Where it listens. */
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** The keys that are active; take one out to revoke it. */
  readonly keys: readonly string[]
  readonly auth: readonly SandboxAuthStyle[]
  readonly webhookSecret: string
  /** Where the delivery of a single lookup answered 202 goes when the call itself gave no webhook_url. */
  readonly webhookUrl: string | null
  /** Decides records, faults and delays. */
  readonly seed: number

  /** Calls per window and key; null is no limit, and then no rate-limit headers. */
  readonly limit: number | null
  readonly windowMs: number
  /** Windows start with the first call after the last window, or on the clock. */
  readonly windows: 'first' | 'clock'
  /** X-RateLimit-Reset in unix seconds: rounded up, rounded down, or with milliseconds as decimals. */
  readonly resetRounding: 'up' | 'down' | 'ms'
  /** Retry-After on a 429: seconds, an HTTP date, or left out. */
  readonly retryAfter: 'seconds' | 'date' | 'none'
  /** The share of responses that carry the X-RateLimit headers. */
  readonly headersShare: number
  readonly dateHeader: boolean
  /** How far the sandbox's clock is ahead of the true one: in Date, Reset and windows on the clock. */
  readonly clockSkewMs: number
  /** Whether a call answered 500 or 503 counts against the limit. */
  readonly errorsCount: boolean
  /** More refusals than this in one window ban the key for `banMs`; null never bans. */
  readonly banAfter: number | null
  readonly banMs: number

  /** The wait between receiving a call and counting it: the way there. */
  readonly latencyBeforeMs: MsRange
  /** The wait between counting a call and answering it: the work and the way back. */
  readonly latencyAfterMs: MsRange

  /** The share of inputs that match nothing. */
  readonly notFoundShare: number
  /** The share of person records in which any one field is missing (a phone twice as often). */
  readonly missingShare: number

  /**
   * What a 202 says: the job's identifier, or also one request_id per accepted email in the order of the emails, or the
   * accepted emails in reverse alphabetical order.
   */
  readonly acceptedShape: 'job_id' | 'job_id+request_ids' | 'job_id+emails'
  /** The share of a job's emails that are refused when it is accepted: no request_id, no result. */
  readonly refusedShare: number
  /** What a request_id looks like: made up, the email as it was sent, or the position from 0. */
  readonly requestIds: 'opaque' | 'email' | 'index'
  /** The wait between the 202 and the delivery. */
  readonly jobDelayMs: MsRange
  /** A delivery not answered 2xx within this time has failed. */
  readonly ackTimeoutMs: number
  /** The waits before a failed delivery is sent again; after the last it is given up. */
  readonly retryDelaysMs: readonly number[]
  /** What a failed job delivers: no results, or those of a part of its inputs. */
  readonly failedResults: 'none' | 'part'

  readonly faults: FaultShares
  /** Decides faults one by one, in tests; it cannot be sent to another process. */
  readonly plan: FaultPlan | null
  /** How much longer a 'slow' call waits. */
  readonly slowMs: MsRange
  /** How much later a 'late' delivery comes. */
  readonly lateMs: MsRange
  /** How long after the first the second of a 'duplicate' delivery is sent; 0 sends both at once. */
  readonly duplicateMs: MsRange
  /** Retry-After of the fault '503-retry-after'. */
  readonly unavailableSeconds: number
}

export const DEFAULT_OPTIONS: SandboxOptions = {
  host: '127.0.0.1',
  port: 0,
  keys: ['sandbox-key'],
  auth: SANDBOX_AUTH_STYLES,
  webhookSecret: 'sandbox-webhook-secret',
  webhookUrl: null,
  seed: 1,
  limit: null,
  windowMs: 10_000,
  windows: 'first',
  resetRounding: 'up',
  retryAfter: 'seconds',
  headersShare: 1,
  dateHeader: true,
  clockSkewMs: 0,
  errorsCount: true,
  banAfter: null,
  banMs: 60_000,
  latencyBeforeMs: 0,
  latencyAfterMs: 0,
  notFoundShare: 0.125,
  missingShare: 0.15,
  acceptedShape: 'job_id',
  refusedShare: 0,
  requestIds: 'opaque',
  jobDelayMs: [200, 1_000],
  ackTimeoutMs: 5_000,
  retryDelaysMs: [500, 2_000, 5_000, 15_000],
  failedResults: 'none',
  faults: {},
  plan: null,
  slowMs: [2_000, 5_000],
  lateMs: [5_000, 15_000],
  duplicateMs: [0, 200],
  unavailableSeconds: 1,
}
