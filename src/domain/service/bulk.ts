import type { QueryValues, ServiceAnswer } from './messages.ts'

// Jobs: many people by one call, and how their results come.

/**
 * 1 to 100 emails (or as many as the service takes), and the http or https URL that receives their results; null if they
 * come in the answer.
 * @example
 * const input: BulkInput = { emails: ['jane@acme.com'], webhookUrl: 'https://example.com/webhooks/enrichment/42' }
 */
export type BulkInput = { emails: readonly string[]; webhookUrl: string | null }

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

/** How many emails are requested with one call. */
export interface BulkEndpoint {
  /** Default: POST. */
  readonly method?: 'GET' | 'POST'
  readonly path: string
  /** The most inputs of a call, up to 1,000. Default: 100. */
  readonly size?: number
  /** Default: `{ emails, webhook_url }`, without the URL if no delivery arrives. */
  readonly body?: (input: BulkInput) => unknown
  /**
   * Whether the results come by webhook, come in the answer, or are fetched with `poll`. A job whose delivery is lost is
   * fetched too, if there is `poll`. Default: by webhook; without `webhook`, fetched.
   */
  readonly results?: 'webhook' | 'answer' | 'poll'
  /** Reads the answer that accepts a job. Default: every common shape (`job_id`, `id`, `request_ids`, …). */
  readonly readAcceptance?: (body: unknown) => BulkAcceptance
  /**
   * Reads an answer with results. Each names its input, by its email as `request_id`, or stands in the order of `emails`. An
   * input that is left out is requested singly. Default: a list, or one in `results` or `data`.
   */
  readonly readResults?: (body: unknown, emails: readonly string[]) => ServiceDelivery
}

/**
 * What the answer to a poll means. `results` end the job unless their `status` is neither `completed` nor `failed`; without
 * a status they complete it. `gone`: the service has no such job any more, and its inputs are requested again.
 * @example
 * const reading: JobReading = { outcome: 'results', delivery: { status: 'completed', results: [{ request_id: 'a@b.c', data: {} }] } }
 */
export type JobReading =
  | { outcome: 'pending' }
  | { outcome: 'results'; delivery: ServiceDelivery }
  | { outcome: 'gone' }

/**
 * How a job is fetched, by its identifier. A poll is a call: it counts against the rate limit.
 * @example
 * const poll: PollEndpoint = { path: '/v2/jobs/{job_id}' }
 */
export interface PollEndpoint {
  /** Default: GET. */
  readonly method?: 'GET' | 'POST'
  /** `{job_id}` stands for the identifier, encoded. */
  readonly path: string
  readonly query?: (jobId: string) => QueryValues
  readonly body?: (jobId: string) => unknown
  /**
   * When a job is fetched first, after its submission: `30s`. Each next time after twice as long, up to a quarter of an
   * hour, until `bulk.deadline`. Default: 10s; 2m where deliveries arrive.
   */
  readonly after?: string
  /**
   * Reads a response. Undefined: it is read in the usual way. A 200 is read as a delivery, and is not ready while its
   * status is neither `completed` nor `failed`; 410 is gone; 202, 204, 400, 404, 409 and 425 are not ready.
   */
  readonly read?: (answer: ServiceAnswer) => JobReading | undefined
}
