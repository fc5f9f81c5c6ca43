import { type MsRange, type Rng, createRng } from './rng.ts'

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

/** The endpoints of docs/service-interface.md. */
export const ENDPOINTS = [
  'POST /v1/person/enrich',
  'POST /v1/person',
  'GET /v1/company/enrich',
  'POST /v1/person/bulk',
] as const
export type SandboxEndpoint = (typeof ENDPOINTS)[number]

/** Every fault that can be enabled, and its effect. */
export const FAULT_MEANINGS = {
  '500': 'the call is answered 500',
  '503': 'the call is answered 503',
  'drop-after': 'the connection is dropped after the call was counted and processed; the answer is lost',
  '504': 'a gateway answers 504 after the call was counted and processed',
  'not-a-record': 'a single lookup is answered 200 with something that is not a record',
  '202': 'a single lookup is answered 202 and becomes a job of one',
  lost: 'the delivery is never sent',
  early: 'the delivery comes before the 202 is answered',
  duplicate: 'the delivery comes twice, with one event_id',
  progress: 'a delivery with the status processing and no results comes first',
  'in-parts': 'the results of a job come in two deliveries',
  'bad-signature': 'the delivery comes with a wrong signature first, then correctly signed',
  'job-failed': 'the job fails',
  'missing-result': 'an input of a job has no result',
  'foreign-result': 'a job has results for inputs that it did not contain',
  shuffle: 'the results of a job are in another order than the inputs',
} as const

export type FaultName = keyof typeof FAULT_MEANINGS

/** The share of opportunities (0 to 1) at which each fault is injected; absent means never. */
export type FaultShares = Readonly<Partial<Record<FaultName, number>>>

/** An opportunity for a fault: one call, one job, or one input of a job. */
export interface FaultPoint {
  readonly endpoint: SandboxEndpoint
  /** Canonical inputs: all emails of a bulk call, a single one for 'missing-result'. */
  readonly inputs: readonly string[]
  /** How often this was tried before, so that a retry draws again. */
  readonly nth: number
}

/** Overrides the shares: true injects the fault, false does not, undefined leaves it to its share. */
type FaultPlan = (fault: FaultName, point: FaultPoint) => boolean | undefined

interface FaultSettings {
  readonly seed: number
  readonly faults: FaultShares
  readonly plan: FaultPlan | null
}

/** A fault point of a running sandbox: the faults injected there, which it counts, and draws of its own. */
export class Opportunity {
  readonly #point: FaultPoint
  /** Different for each opportunity, and the same in every run. */
  readonly key: string
  readonly #settings: () => FaultSettings
  readonly #count: (fault: FaultName) => void

  constructor(point: FaultPoint, settings: () => FaultSettings, count: (fault: FaultName) => void) {
    const { nth, endpoint, inputs } = point
    this.#point = point
    this.key = `${nth} ${endpoint} ${inputs[0] ?? ''}`
    this.#settings = settings
    this.#count = count
  }

  /** Whether the fault is injected here: by the plan, else by a draw that the seed determines. */
  injects(fault: FaultName): boolean {
    const { faults, plan } = this.#settings()
    const share = faults[fault] ?? 0
    const isInjected = plan?.(fault, this.#point) ?? (share > 0 && this.draw(fault).below(share))
    if (isInjected) this.#count(fault)
    return isInjected
  }

  draw(what: string): Rng {
    return createRng(this.#settings().seed, `${what} ${this.key}`)
  }

  drawMs(range: MsRange, what: string): number {
    if (typeof range === 'number') return range
    return this.draw(what).between(range[0], range[1])
  }

  /** The same for one input of a job. */
  ofInput(key: string): Opportunity {
    return new Opportunity({ ...this.#point, inputs: [key] }, this.#settings, this.#count)
  }
}
