import type { JsonObject } from '../json.ts'
import type { LOOKUP_KINDS, LookupKind } from '../identifiers/kind.ts'
import type { NameDetail } from '../mapping.ts'
import type { ServiceAuth } from './auth.ts'
import type { RateDefinition } from './documented-limit.ts'
import type { FieldType } from '../record-fields.ts'
import type {
  AwaitedJob,
  BulkInput,
  BulkReading,
  JobInputs,
  JobReading,
  QueryValues,
  ServiceAnswer,
  ServiceDelivery,
  ServiceFailure,
} from './messages.ts'

/**
 * What identifies a person: exactly one of these. A name comes with the details that the endpoint's `inputs` list; a domain may then
 * stand for the company.
 * @example
 * const input: PersonInput = { linkedin_url: 'https://www.linkedin.com/in/jane-doe' }
 */
export type PersonInput =
  | { email: string }
  | { linkedin_url: string }
  | ({ name: string; company: string; company_domain?: string } & SplitName)
  | ({ name: string; company_domain: string } & SplitName)

/** A name in parts, as far as they are known. */
interface SplitName {
  first_name?: string
  last_name?: string
}

type PersonKind = (typeof LOOKUP_KINDS)['person'][number]

/**
 * What identifies a company.
 * @example
 * const input: CompanyInput = { domain: 'acme.com' }
 */
export type CompanyInput = { domain: string }

/**
 * What a response means for one lookup. `confidence` is 0 to 1; null for a service that sends none. Of the failures
 * `transient` is tried again, `rejected` is not, `unauthorized` counts against the key, `rate_limited` stops all calls for a
 * while, as a status of 429 does, and `out_of_credits` stops the run. `credits` is what the lookup cost, if
 * the service says it; otherwise `credits` of the description says it.
 * @example
 * const reading: ServiceReading = { outcome: 'found', record: { title: 'CEO' }, confidence: 0.9 }
 */
export type ServiceReading =
  | { outcome: 'found'; record: JsonObject; confidence: number | null; credits?: number | null | undefined }
  | { outcome: 'not_found'; credits?: number | null | undefined }
  | { outcome: 'accepted'; jobId: string | null }
  | ServiceFailure

export const STATUS_MEANINGS = [
  'accepted',
  'not_found',
  'rejected',
  'transient',
  'unauthorized',
  'rate_limited',
  'out_of_credits',
] as const
/** What a status means, if not what HTTP says. `out_of_credits`: the account has none left. */
export type StatusMeaning = (typeof STATUS_MEANINGS)[number]

export const CALL_METHODS = ['GET', 'POST'] as const
type CallMethod = (typeof CALL_METHODS)[number]

/**
 * How one lookup is requested. Every function is pure: the same input is the same request.
 * @example
 * const person: LookupEndpoint<PersonInput> = { method: 'GET', path: '/v5/person/enrich', query: (input) => ({ ...input }) }
 */
export interface LookupEndpoint<Input, Taken extends LookupKind | NameDetail = LookupKind | NameDetail> {
  /** Default: POST for a person, GET for a company. */
  readonly method?: CallMethod
  /** Below the base URL. `{email}` and the like stand for a field of the input, encoded. */
  readonly path: string
  /** Default: the input's fields, for GET. */
  readonly query?: (input: Input) => QueryValues
  /** Sent as JSON. Default: the input's fields (`email`, `linkedin_url`, `name`, `company`, `domain`), for POST. */
  readonly body?: (input: Input) => unknown
  /** The body is sent as a form (application/x-www-form-urlencoded): flat values, a list as a repeated field. */
  readonly form?: boolean
  /** What the service takes. Default: all kinds, without the details of a name: `first_name`, `last_name`, `company_domain`. */
  readonly inputs?: readonly Taken[]
  /** Where the record is. Default: see `RecordPlace`. */
  readonly record?: RecordPlace
  /** Reads a response. Undefined: it is read in the usual way, by status and by `record`. */
  readonly read?: (answer: ServiceAnswer) => ServiceReading | undefined
}

/** Where a response has the record and its confidence. */
export interface RecordPlace {
  /** Fields that may wrap it, in order. Default: `data`, `person` or `company`, `result`, `record`, `results`. */
  readonly wrappers?: readonly string[]
  /** The field of the confidence, beside the record or in it. Default: `confidence`. Null: there is none. */
  readonly confidence?: string | null
  /** The greatest confidence: 10 for a likelihood of 1 to 10. Default: 1, and numbers above 1 are percentages. */
  readonly confidenceMax?: number
}

export const SIGNATURE_ALGORITHMS = ['sha1', 'sha256', 'sha512'] as const
export const SIGNATURE_ENCODINGS = ['hex', 'base64'] as const

/**
 * How a delivery is signed: an HMAC over the bytes of the body.
 * @example
 * const signature: WebhookSignature = { header: 'x-signature', algorithm: 'sha1', encoding: 'base64', prefix: 'sha1=' }
 */
export interface WebhookSignature {
  readonly header: string
  /** Default: sha256. */
  readonly algorithm?: (typeof SIGNATURE_ALGORITHMS)[number]
  /** Default: hex, in lower case. */
  readonly encoding?: (typeof SIGNATURE_ENCODINGS)[number]
  /** What stands before the signature, such as `sha256=`. */
  readonly prefix?: string
}

/** How deliveries are read. */
export interface WebhookDefinition {
  /**
   * `'none'`: the service signs nothing. Each job then has an address that cannot be guessed, made with
   * FILLRATE_WEBHOOK_SECRET, and a delivery to any other is refused.
   */
  readonly signature: WebhookSignature | 'none'
  /**
   * Reads a body. `job` has the inputs, in the order of submission; null: no job of this database is named by the delivery's
   * address or by the `jobId` that is read. Default: `event_id`, `job_id`, `status`, `results`.
   */
  readonly read?: (body: JsonObject, job: JobInputs | null) => ServiceDelivery
}

/**
 * What a lookup costs, in credits: `0.5` is half a one. Budgets count them: what a lookup did cost is known from its answer, which may
 * also state it.
 * @example
 * const credits: CreditsDefinition = { most: 3, of: (kind, record) => (record === null ? 0 : kind === 'email' ? 3 : 1) }
 */
export interface CreditsDefinition {
  /** The most that one lookup may cost. */
  readonly most: number | ((kind: LookupKind) => number)
  /**
   * What an answer costs that does not state it; null: no match, or an input that the service rejects (422). Default: `most`, whatever
   * it finds. More than `most` counts as well, as if the answer had stated it; where it throws or gives no number, `most` counts.
   */
  readonly of?: (kind: LookupKind, record: Readonly<Record<string, unknown>> | null) => number
}

/**
 * An enrichment service: how it is called, and how its answers are read. Only `name` and one of `person` and `company`
 * are required; docs/services.md explains each part.
 */
export interface ServiceDefinition<Person extends string = string, Company extends string = string> {
  readonly name: string
  /** Default: FILLRATE_AUTH, or bearer. */
  readonly auth?: ServiceAuth
  /**
   * Sent with each call. The key comes from FILLRATE_API_KEY, a second secret from a variable, `process.env.ACME_APP_ID`: without a
   * value the description is refused, and a value is masked wherever it could be shown.
   */
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly person?: LookupEndpoint<PersonInput, PersonKind | NameDetail>
  readonly company?: LookupEndpoint<CompanyInput, (typeof LOOKUP_KINDS)['company'][number]>
  /** Many people with one call. Default: one call a lookup. */
  readonly bulk?: BulkEndpoint
  /** Many companies by domain with one call. Its jobs are delivered and fetched as those of people. */
  readonly companyBulk?: Omit<BulkEndpoint, 'inputs'>
  /** By status, what an answer means if it is not what HTTP says: `{ 402: 'out_of_credits' }`. */
  readonly statuses?: Readonly<Record<number, StatusMeaning>>
  /** Required for bulk whose results come by webhook. */
  readonly webhook?: WebhookDefinition
  /** How jobs are fetched whose delivery is lost, or that have none. */
  readonly poll?: PollEndpoint
  readonly account?: AccountEndpoint
  readonly rate?: RateDefinition
  readonly credits?: CreditsDefinition
  /** The fields of a record, which outputs may copy, each with its type: a dot leads into an object. */
  readonly fields?: {
    readonly person?: Readonly<Record<Person, FieldType>>
    readonly company?: Readonly<Record<Company, FieldType>>
  }
}

/**
 * Describes an enrichment service, with completion and type checks. It is checked when the configuration is read.
 * @example
 * export default defineService({
 *   name: 'Acme Data',
 *   auth: { header: 'x-api-key' },
 *   person: { path: '/v2/people/find', record: { confidence: 'score', confidenceMax: 100 } },
 *   fields: { person: { job_title: 'text', 'employer.name': 'text' } },
 * })
 */
export function defineService<const Person extends string, const Company extends string>(
  definition: ServiceDefinition<Person, Company>,
): ServiceDefinition<Person, Company> {
  return definition
}

/**
 * A GET that is free and needs the key: `fillrate check` and "Try now" on the dashboard prove a key by it.
 * @example
 * const account: AccountEndpoint = {
 *   path: '/v2/account',
 *   credits: (body) => (body as { left: number }).left,
 * }
 */
export interface AccountEndpoint {
  readonly path: string
  /** The credits that are left, by the body of the answer. Default: not known. */
  readonly credits?: (body: unknown) => number
}

export const BULK_RESULTS = ['webhook', 'answer', 'poll'] as const

/**
 * How many inputs are requested with one call, a POST.
 * @example
 * const bulk: BulkEndpoint = {
 *   path: '/v2/people/bulk',
 *   inputs: ['email', 'name_company'],
 *   body: ({ inputs }) => ({ people: inputs.map((input, id) => ({ id, ...input })) }),
 * }
 */
export interface BulkEndpoint {
  readonly path: string
  /**
   * What a job may carry, together. Default: emails alone; with more, `body` is required. With `name_company`, the same details as
   * `person` takes.
   */
  readonly inputs?: readonly (PersonKind | NameDetail)[]
  /** The most inputs of a call, up to 1,000. Default: 100. */
  readonly size?: number
  /** Default, for emails alone: `{ emails, webhook_url }`, without the URL if no delivery arrives. */
  readonly body?: (input: BulkInput) => unknown
  /** The body is sent as a form: by default each email as a field of its own. */
  readonly form?: boolean
  /**
   * Whether the results come by webhook, come in the answer, or are fetched with `poll`. A job whose delivery is lost is
   * fetched too, if there is `poll`. Default: by webhook; without `webhook`, fetched.
   */
  readonly results?: (typeof BULK_RESULTS)[number]
  /**
   * Whether the identifiers of an acceptance, and the results of a job, are documented to be in the order of the inputs. Then
   * a result without a name belongs to the input at its place. Default: false; results that name nothing are quarantined,
   * unless enough others name their input and stand at its place.
   */
  readonly ordered?: boolean
  /**
   * Reads a response. Each result names its input (see `ServiceDelivery`), or stands in the order of the inputs where
   * `ordered` says so; an input that is left out is requested singly. Undefined: it is read in the usual way, by status, and a
   * success as an acceptance of every common shape (`job_id`, `id`, `request_ids`, …), or, with `results: 'answer'`, as a list,
   * or one in `results` or `data`. From a status of 400 on neither is believed.
   */
  readonly read?: (answer: ServiceAnswer, inputs: JobInputs) => BulkReading | undefined
}

/**
 * How a job is fetched, by its identifier, and page by page where `read` says `more`. A poll is a call: it counts against the rate limit.
 * @example
 * const poll: PollEndpoint = { path: '/v2/jobs/{job_id}' }
 */
export interface PollEndpoint {
  /** Default: GET. */
  readonly method?: CallMethod
  /** `{job_id}` stands for the identifier, `{cursor}` for that of the next page, encoded. */
  readonly path: string
  /** `cursor`: as `more` said; null: the results begin. */
  readonly query?: (jobId: string, cursor: string | null) => QueryValues
  readonly body?: (jobId: string, cursor: string | null) => unknown
  /** The body is sent as a form. */
  readonly form?: boolean
  /**
   * When a job is fetched first, after its submission: `30s`. Each next time after twice as long, up to a quarter of an
   * hour, until `bulk.deadline`. Default: 10s; 2m where deliveries arrive.
   */
  readonly after?: string
  /**
   * Reads a response. Undefined: it is read in the usual way. A 200 is read as a delivery, and is not ready while its
   * status is neither `completed` nor `failed`; 410 is gone; 202, 204, 400, 404, 409 and 425 are not ready.
   */
  readonly read?: (answer: ServiceAnswer, job: AwaitedJob) => JobReading | undefined
}
