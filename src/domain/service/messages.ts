// What the functions of an adapter get and return.
import type { CalledEndpoint } from '../spend.ts'

/** A response, its body parsed; `body` is undefined if it is not JSON. Header names are in lower case. */
export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

/** Values of a query; undefined is left out. */
export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>

/**
 * An input of a job: what identifies a person or a company. Empty if it was erased.
 * @example
 * const input: JobInput = { name: 'Jane Doe', company: 'Acme' }
 */
export interface JobInput {
  readonly email?: string
  readonly linkedin_url?: string
  readonly name?: string
  readonly company?: string
  readonly first_name?: string
  readonly last_name?: string
  readonly company_domain?: string
  readonly domain?: string
}

/** The inputs of a job, both in the order of submission. */
export interface JobInputs {
  readonly inputs: readonly JobInput[]
  /** Of a service that takes emails alone, the same. Empty for an input without an email, or one that was erased. */
  readonly emails: readonly string[]
}

/**
 * The inputs of a job, people by email alone or any.
 * @example
 * const given: GivenInputs = { inputs: [{ name: 'Jane Doe', company: 'Acme' }] }
 */
export type GivenInputs = { readonly emails: readonly string[] } | { readonly inputs: readonly JobInput[] }

/**
 * What is submitted with one call, and the http or https URL that receives the results; null if they come otherwise.
 * @example
 * const body = ({ inputs, webhookUrl }: BulkInput) => ({ people: inputs.map(({ name }, id) => ({ id, name })), webhookUrl })
 */
export interface BulkInput extends JobInputs {
  readonly webhookUrl: string | null
}

/** A job that is fetched, as its reader gets it. */
export interface AwaitedJob extends JobInputs {
  /** The service's identifier. */
  readonly jobId: string
  /** Where the next page of its results is, as `more` said; null: they begin. */
  readonly cursor: string | null
}

/**
 * What a response says in place of an answer. Each acts as its status would, before the rate limit, the keys and the circuit
 * see it. `unreadable` is a fault of the service: it is kept for inspection, and what it may have cost is in doubt.
 * @example
 * const failure: ServiceFailure = { outcome: 'rate_limited', retryAfterMs: 30_000 }
 */
export type ServiceFailure =
  | { outcome: 'unreadable'; reason: string }
  /** `credits`: what a single lookup cost all the same, if the service says it. Default: that of a miss. */
  | { outcome: 'rejected'; reason?: string; credits?: number | null | undefined }
  /** `out_of_credits`: the account has none left, which stops the run. */
  | { outcome: 'unauthorized' | 'out_of_credits'; reason?: string }
  /** `retryAfterMs`: how long to wait, if the response says so. */
  | { outcome: 'transient'; reason?: string; retryAfterMs?: number }
  | { outcome: 'rate_limited'; retryAfterMs?: number }

const FAILURES = [
  'unreadable',
  'rejected',
  'unauthorized',
  'transient',
  'rate_limited',
  'out_of_credits',
] as const satisfies readonly ServiceFailure['outcome'][]

/** What the response to each kind of call may mean, for a description in JavaScript, which no compiler checks. */
export const OUTCOMES = {
  person: ['found', 'not_found', 'accepted', ...FAILURES],
  company: ['found', 'not_found', 'accepted', ...FAILURES],
  bulk: ['accepted', 'results', ...FAILURES],
  poll: ['pending', 'results', 'more', 'gone', 'unpaid', ...FAILURES],
} as const satisfies Record<CalledEndpoint, readonly string[]>

export const isFailure = (reading: { readonly outcome: string }): reading is ServiceFailure =>
  FAILURES.includes(reading.outcome as ServiceFailure['outcome'])

/** The identifiers that an acceptance gives: by input, or in the order of the inputs. */
export interface BulkAcceptance {
  /** The service's identifier of the job; null if it sent none. */
  jobId: string | null
  /** Of the inputs: by email, profile URL or domain, or a list that may be in their order. Null: not sent. */
  requestIds: string[] | Record<string, string> | null
}

/** What a reader said that the results of a delivery cost, and their job. Null: nothing. */
export interface StatedCredits {
  readonly job: number | null
  /** In the order of the results. */
  readonly results: readonly (number | null)[]
}

/**
 * A delivery as the service sends it, by our names; `results` holds an object for each input. It names its input by
 * `request_id`, which is the input's email, profile URL or domain, or what the acceptance gave, or by `index`, the place of
 * the input in the job, from 0; `data` is the record, null if there is none; `credits` is what it cost, if the service says it.
 * @example
 * const delivery: ServiceDelivery = { status: 'completed', results: [{ index: 0, data: { title: 'CEO' } }] }
 */
export interface ServiceDelivery {
  /** Identifies the delivery. Null or missing: the same bytes are the same delivery. */
  readonly eventId?: unknown
  readonly jobId?: unknown
  /** `completed` and `failed` end the job. */
  readonly status?: unknown
  readonly results: unknown
  /** What the whole job has cost, earlier results of it included, if the service says it. It is billed in place of all else. */
  readonly credits?: number | null | undefined
  /** Filled in when the delivery is read. */
  readonly stated?: StatedCredits
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
 * a status they complete it. `more`: a page of the results; the job is fetched at once again, with this `cursor`, and is over with
 * the page that says `results`. `gone`: the service has no such job any more, and its inputs are requested again. `unpaid`: the job
 * ended without results because the account had no credits, which billed nothing: its inputs are requested again when there are some.
 * @example
 * const reading: JobReading = { outcome: 'results', delivery: { status: 'completed', results: [{ request_id: 'a@b.c', data: {} }] } }
 */
export type JobReading = JobProgress | ServiceFailure

/** How far a job is that was fetched. */
export type JobProgress =
  | { outcome: 'pending' }
  | { outcome: 'results'; delivery: ServiceDelivery }
  | { outcome: 'more'; delivery: ServiceDelivery; cursor: string }
  | { outcome: 'gone' }
  | { outcome: 'unpaid' }
