// What the functions of an adapter get and return.

/** A response, its body parsed; `body` is undefined if it is not JSON. Header names are in lower case. */
export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

/** Values of a query; undefined is left out. */
export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>

/**
 * 1 to 100 emails (or as many as the service takes), and the http or https URL that receives their results; null if they
 * come in the answer.
 * @example
 * const input: BulkInput = { emails: ['jane@acme.com'], webhookUrl: 'https://example.com/webhooks/enrichment/42' }
 */
export type BulkInput = { emails: readonly string[]; webhookUrl: string | null }

/** The inputs of a job, as readers get them. */
export interface JobInputs {
  /** In the order of submission. Empty for an input without an email, or one that was erased. */
  readonly emails: readonly string[]
}

/** A job that is fetched, as its reader gets it. */
export interface AwaitedJob extends JobInputs {
  /** The service's identifier. */
  readonly jobId: string
}

/**
 * What a response says in place of an answer. Each acts as its status would, before the rate limit, the keys and the circuit
 * see it. `unreadable` is a fault of the service: it is kept for inspection, and what it may have cost is in doubt.
 * @example
 * const failure: ServiceFailure = { outcome: 'rate_limited', retryAfterMs: 30_000 }
 */
export type ServiceFailure =
  | { outcome: 'unreadable'; reason: string }
  /** `out_of_credits`: the account has none left, which stops the run. */
  | { outcome: 'rejected' | 'unauthorized' | 'out_of_credits'; reason?: string }
  /** `retryAfterMs`: how long to wait, if the response says so. */
  | { outcome: 'transient'; reason?: string; retryAfterMs?: number }
  | { outcome: 'rate_limited' | 'banned'; retryAfterMs?: number }

const FAILURES = [
  'unreadable',
  'rejected',
  'unauthorized',
  'transient',
  'rate_limited',
  'banned',
  'out_of_credits',
] as const satisfies readonly ServiceFailure['outcome'][]

/** What the response to each kind of call may mean, for a description in JavaScript, which no compiler checks. */
export const OUTCOMES = {
  lookup: ['found', 'not_found', 'accepted', ...FAILURES],
  bulk: ['accepted', 'results', ...FAILURES],
  poll: ['pending', 'results', 'gone', ...FAILURES],
} as const

export const isFailure = (reading: { readonly outcome: string }): reading is ServiceFailure =>
  FAILURES.includes(reading.outcome as ServiceFailure['outcome'])

/** The identifiers that an acceptance gives: by email, or in the order of the emails. */
export interface BulkAcceptance {
  /** The service's identifier of the job; null if it sent none. */
  jobId: string | null
  /** The identifiers of the inputs: by email, or a list that may be in the order of the emails. Null: not sent. */
  requestIds: string[] | Record<string, string> | null
}

/** A delivery as the service sends it, by our names; `results` holds an object for each input. */
export interface ServiceDelivery {
  /** Identifies the delivery. Null or missing: the same bytes are the same delivery. */
  readonly eventId?: unknown
  readonly jobId?: unknown
  /** `completed` and `failed` end the job. */
  readonly status?: unknown
  readonly results: unknown
}

/**
 * What the answer to a bulk call means. `accepted`: the results come later; without a 202 only an identifier proves it.
 * `results` are in the answer, and end the job, because nothing follows: with the status `completed`, or none, an empty result
 * is a miss.
 * @example
 * const reading: BulkReading = { outcome: 'results', delivery: { results: [{ request_id: 'a@b.c', data: {} }] } }
 */
export type BulkReading =
  | { outcome: 'accepted'; jobId: string | null; requestIds?: BulkAcceptance['requestIds'] }
  | { outcome: 'results'; delivery: ServiceDelivery }
  | ServiceFailure

/**
 * What the answer to a poll means. `results` end the job unless their `status` is neither `completed` nor `failed`; without
 * a status they complete it. `gone`: the service has no such job any more, and its inputs are requested again.
 * @example
 * const reading: JobReading = { outcome: 'results', delivery: { status: 'completed', results: [{ request_id: 'a@b.c', data: {} }] } }
 */
export type JobReading = JobProgress | ServiceFailure

/** How far a job is that was fetched. */
export type JobProgress =
  | { outcome: 'pending' }
  | { outcome: 'results'; delivery: ServiceDelivery }
  | { outcome: 'gone' }
