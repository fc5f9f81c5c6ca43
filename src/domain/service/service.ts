import { ALL_LOOKUP_KINDS, LOOKUP_KINDS, type LookupKind } from '../identifiers/kind.ts'
import { JOB_SIZE } from '../job.ts'
import { NAME_DETAILS, type NameDetail, type SourceKind } from '../mapping.ts'
import { roundCredits, type CalledEndpoint } from '../spend.ts'
import { createRecordReader, toRecordShape, type RecordReader } from '../record.ts'
import type { RecordFields } from '../record-fields.ts'
import type {
  AccountEndpoint,
  BulkEndpoint,
  CompanyInput,
  LookupEndpoint,
  PersonInput,
  PollEndpoint,
  RecordPlace,
  ServiceDefinition,
  ServiceReading,
  WebhookDefinition,
  WebhookSignature,
  CreditsDefinition,
} from './adapter.ts'
import type { ServiceAuth } from './auth.ts'
import type { BulkInput, QueryValues, ServiceAnswer, ServiceDelivery, StatedCredits } from './messages.ts'
import { parseDuration } from '../../util/text.ts'
import { isObject, listItems } from '../json.ts'
import { readDocumentedLimits, type DocumentedLimit } from './documented-limit.ts'
import { createNormalizer, type NormalizeHead } from './head.ts'

/** Method and path, `POST /v1/person/enrich`; also how messages name the call. Placeholders stay placeholders. */
export type ServiceEndpoint = `${'GET' | 'POST'} /${string}`

/** What a request carries beside its method, path and credentials. */
export interface RequestParts {
  /** With its placeholders filled in, if it has any. */
  readonly path?: string
  /** Encoded, without `?`. */
  readonly query?: string
  readonly body?: string
  /** The body is a form, not JSON. */
  readonly isForm?: boolean
}

/** What is called. Two endpoints may have one path: they differ in what a call of each requests. */
export interface CalledPath {
  readonly endpoint: ServiceEndpoint
  readonly kind: CalledEndpoint
}

/** How one lookup is requested and read, every default filled in and every function chosen once. */
export interface LookupCall<Input> extends CalledPath {
  readonly kind: SourceKind
  /** The kinds of lookups, and the details of a name. */
  readonly inputs: ReadonlySet<string>
  readonly details: readonly NameDetail[]
  build(input: Input): RequestParts
  readonly readRecord: RecordReader
  readonly read: ((answer: ServiceAnswer) => ServiceReading | undefined) | null
}

/** How bulk jobs are submitted. */
export interface BulkCall extends CalledPath {
  /** What a job may carry. */
  readonly kinds: readonly LookupKind[]
  readonly size: number
  readonly results: NonNullable<BulkEndpoint['results']>
  /** Nothing but a delivery brings the results. */
  readonly needsWebhook: boolean
  /** Identifiers and results are in the order of the inputs. */
  readonly isOrdered: boolean
  build(input: BulkInput): RequestParts
  readonly read: NonNullable<BulkEndpoint['read']> | null
}

/** How a job is fetched. */
interface PollCall extends CalledPath {
  /** @param cursor of the next page; null: the results begin */
  build(jobId: string, cursor?: string | null): RequestParts
  readonly read: NonNullable<PollEndpoint['read']> | null
  /** From the submission to the first poll, in milliseconds. Null: it depends on whether deliveries arrive. */
  readonly firstMs: number | null
}

export type SignatureScheme = Required<WebhookSignature>

/** An enrichment service, ready to be called: what `ServiceDefinition` means with every default. */
export interface Service {
  readonly name: string
  /** Null: FILLRATE_AUTH decides. */
  readonly auth: ServiceAuth | null
  readonly headers: Readonly<Record<string, string>>
  readonly person: LookupCall<PersonInput> | null
  readonly company: LookupCall<CompanyInput> | null
  readonly bulk: BulkCall | null
  readonly companyBulk: BulkCall | null
  readonly poll: PollCall | null
  readonly account: (CalledPath & Pick<AccountEndpoint, 'credits'>) | null
  readonly normalizeHead: NormalizeHead
  /** None: each job has an address of its own (`webhook/address.ts`). */
  readonly signature: SignatureScheme | 'none'
  readonly readDelivery: NonNullable<WebhookDefinition['read']> | null
  readonly readers: Readonly<Record<SourceKind, RecordReader>>
  /** Documented limits, beside what headers say. */
  readonly rateLimits: readonly DocumentedLimit[]
  readonly credits: ServiceCredits
  readonly fields: RecordFields
}

/** Placeholders of a path, `{email}`. */
const PLACEHOLDER = /\{(\w+)\}/g

/** Completes a definition. It must be valid: `parseService` checks it. */
export function createService(definition: ServiceDefinition): Service {
  const { person, company, bulk, companyBulk, webhook, poll, account, rate } = definition
  const fields: RecordFields = { person: {}, company: {}, ...definition.fields }
  const read = (kind: SourceKind, place: RecordPlace = {}): RecordReader =>
    createRecordReader(toRecordShape(kind, Object.keys(fields[kind]), place))
  // The result of a delivery is under `data`, whatever else may wrap the record in it.
  const inDelivery = (place: RecordPlace = {}): RecordPlace =>
    place.wrappers === undefined ? place : { ...place, wrappers: ['data', ...place.wrappers] }
  const readers = {
    person: read('person', inDelivery(person?.record)),
    company: read('company', inDelivery(company?.record)),
  }
  const call = <Input extends object>(endpoint: LookupEndpoint<Input>, kind: SourceKind): LookupCall<Input> =>
    createLookupCall(endpoint, kind, read(kind, endpoint.record))
  return {
    name: definition.name,
    auth: definition.auth ?? null,
    // Each has a value: the configuration checks it.
    headers: (definition.headers ?? {}) as Readonly<Record<string, string>>,
    person: person ? call(person, 'person') : null,
    company: company ? call(company, 'company') : null,
    bulk: bulk ? createBulkCall(bulk, bulk.inputs ?? ['email'], definition) : null,
    companyBulk: companyBulk ? createBulkCall(companyBulk, ['domain'], definition) : null,
    poll: poll ? createPollCall(poll) : null,
    account: account
      ? { ...account, endpoint: `GET ${account.path}` as ServiceEndpoint, kind: 'poll' }
      : null,
    normalizeHead: createNormalizer(definition),
    signature: completeSignature(webhook?.signature),
    readDelivery: webhook?.read ?? null,
    readers,
    rateLimits: readDocumentedLimits(rate?.limit),
    credits: readCredits(definition.credits),
    fields,
  }
}

/** How deliveries are signed where the description does not say it, and by `signWebhook`. */
export const USUAL_SIGNATURE: SignatureScheme = {
  header: 'x-webhook-signature',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: '',
}

const completeSignature = (
  signature: WebhookDefinition['signature'] = USUAL_SIGNATURE,
): Service['signature'] =>
  signature === 'none'
    ? signature
    : { ...USUAL_SIGNATURE, ...signature, header: signature.header.toLowerCase() }

function createLookupCall<Input extends object>(
  endpoint: LookupEndpoint<Input>,
  kind: SourceKind,
  readRecord: RecordReader,
): LookupCall<Input> {
  const method = endpoint.method ?? (kind === 'person' ? 'POST' : 'GET')
  const asItIs = (input: Input) => ({ ...input }) as Record<string, string>
  const toQuery = endpoint.query ?? (method === 'GET' ? asItIs : null)
  const toBody = endpoint.body ?? (method === 'POST' ? asItIs : null)
  const hasPlaceholders = endpoint.path.includes('{')
  const inputs = new Set<string>(endpoint.inputs ?? LOOKUP_KINDS[kind])
  return {
    endpoint: `${method} ${endpoint.path}` as ServiceEndpoint,
    kind,
    inputs,
    details: NAME_DETAILS.filter((detail) => inputs.has(detail)),
    readRecord,
    read: endpoint.read ?? null,
    build: (input) => ({
      ...(hasPlaceholders && { path: fillPath(endpoint.path, asItIs(input)) }),
      ...(toQuery && { query: encodeQuery(toQuery(input)) }),
      ...(toBody && encodeBody(toBody(input), endpoint)),
    }),
  }
}

/** Every endpoint of jobs. */
export const listBulkCalls = ({ bulk, companyBulk }: Pick<Service, 'bulk' | 'companyBulk'>): BulkCall[] =>
  [bulk, companyBulk].filter((call) => call !== null)

function createBulkCall(
  { path, size = JOB_SIZE, body, form, results, ordered = false, read }: BulkEndpoint,
  inputs: readonly (LookupKind | NameDetail)[],
  { poll, webhook }: ServiceDefinition,
): BulkCall {
  const toBody =
    body ??
    (({ emails, webhookUrl }: BulkInput) => ({ emails, ...(webhookUrl && { webhook_url: webhookUrl }) }))
  return {
    endpoint: `POST ${path}` as ServiceEndpoint,
    kind: 'bulk',
    kinds: ALL_LOOKUP_KINDS.filter((kind) => inputs.includes(kind)),
    size,
    results: results ?? (poll && !webhook ? 'poll' : 'webhook'),
    needsWebhook: results !== 'answer' && !poll,
    isOrdered: ordered,
    build: (input) => encodeBody(toBody(input), { form }),
    read: read ?? null,
  }
}

function createPollCall({ method = 'GET', path, query, body, form, after, read }: PollEndpoint): PollCall {
  return {
    endpoint: `${method} ${path}` as ServiceEndpoint,
    kind: 'poll',
    build: (jobId, cursor = null) => ({
      path: fillPath(path, { job_id: jobId, ...(cursor !== null && { cursor }) }),
      ...(query && { query: encodeQuery(query(jobId, cursor)) }),
      ...(body && encodeBody(body(jobId, cursor), { form })),
    }),
    read: read ?? null,
    firstMs: after === undefined ? null : parseDuration(after),
  }
}

const fillPath = (path: string, values: Readonly<Record<string, string>>): string =>
  path.replaceAll(PLACEHOLDER, (_, name: string) => encodeURIComponent((values[name] ?? '').toWellFormed()))

const encodeQuery = (values: QueryValues): string =>
  Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value).toWellFormed())}`)
    .join('&')

/** A body as it is sent. */
interface EncodedBody {
  readonly body: string
  readonly isForm?: boolean
}

/** JSON, or a form where the endpoint says so. */
const encodeBody = (value: unknown, { form }: { readonly form?: boolean | undefined }): EncodedBody =>
  form === true ? { body: encodeForm(value), isForm: true } : { body: JSON.stringify(value) }

/**
 * The text of a form (application/x-www-form-urlencoded): a field for each value, and one for each item of a list. Null
 * and undefined are left out.
 * @throws TypeError for what a form cannot hold
 * @example encodeForm({ email: ['a@x.example', 'b@x.example'], full: true })
 */
function encodeForm(value: unknown): string {
  if (!isObject(value)) throw new TypeError('a form is made of an object, such as { email: input.email }')
  const fields = new URLSearchParams()
  for (const [name, content] of Object.entries(value))
    for (const value of Array.isArray(content) ? content : [content]) {
      if (value === null || value === undefined) continue
      if (typeof value === 'object' || typeof value === 'function')
        throw new TypeError(`a form has flat values: \`${name}\` holds ${describeHeld(value)}`)
      fields.append(name, String(value))
    }
  return fields.toString()
}

const describeHeld = (value: object): string =>
  Array.isArray(value) ? 'a list in a list' : typeof value === 'function' ? 'a function' : 'an object'

/** What lookups cost, in credits, which budgets count. Without a definition: one each. */
export interface ServiceCredits {
  /** Every lookup costs one credit, whatever it finds. */
  readonly isFlat: boolean
  /** The least and the most that a lookup may cost. */
  readonly least: Readonly<Record<LookupKind, number>>
  readonly most: Readonly<Record<LookupKind, number>>
  /** What a lookup costs, by its record; null: no match. */
  of(kind: LookupKind, record: Readonly<Record<string, unknown>> | null): number
}

/** A number for each kind of lookup. */
export const byKind = (toCount: (kind: LookupKind) => number): Record<LookupKind, number> => ({
  email: toCount('email'),
  linkedin_url: toCount('linkedin_url'),
  name_company: toCount('name_company'),
  domain: toCount('domain'),
})

/** Completes what a service bills. */
export function readCredits(definition: CreditsDefinition = { most: 1 }): ServiceCredits {
  const { most: bound, of: toCost } = definition
  const most = byKind((kind) => (typeof bound === 'function' ? bound(kind) : bound))
  const of: ServiceCredits['of'] = (kind, record) =>
    toCost === undefined ? most[kind] : (tryCost(toCost, kind, record) ?? most[kind])
  return {
    isFlat: toCost === undefined && ALL_LOOKUP_KINDS.every((kind) => most[kind] === 1),
    least: byKind((kind) => Math.min(most[kind], of(kind, null))),
    most,
    of,
  }
}

/**
 * Null: the description's own function fails, or gives no number of credits. The record is paid for,
 * and is kept all the same.
 */
function tryCost(
  toCost: NonNullable<CreditsDefinition['of']>,
  kind: LookupKind,
  record: Readonly<Record<string, unknown>> | null,
): number | null {
  try {
    return toStated(toCost(kind, record))
  } catch {
    return null
  }
}

/** The value of a field such as `location.city`; undefined if it is missing. */
export const valueAtPath = (record: unknown, path: string): unknown =>
  path
    .split('.')
    .reduce<unknown>(
      (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined),
      record,
    )

/** More is no cost of a call. */
const MAX_STATED_CREDITS = 1_000_000

/** Whether a reader may say that something cost this. Null or undefined: the answer does not say. */
export const areCredits = (value: unknown): value is number | null | undefined =>
  value === null ||
  value === undefined ||
  (typeof value === 'number' && value >= 0 && value <= MAX_STATED_CREDITS)

/** @throws TypeError for what is no number of credits */
function toStated(value: unknown): number | null {
  if (!areCredits(value)) throw new TypeError('no number of credits')
  return value === null || value === undefined ? null : roundCredits(value)
}

/**
 * What the service's own reader says that results cost. Only its reader knows: in a delivery as the service sends it, a field of
 * this name may be what is left.
 * @throws TypeError for what is no number of credits
 */
export function withStatedCredits(delivery: ServiceDelivery): ServiceDelivery {
  const stated: StatedCredits = {
    job: toStated(delivery.credits),
    results: listItems(delivery.results).map((item) =>
      isResultObject(item) ? toStated(item['credits']) : null,
    ),
  }
  return stated.job === null && stated.results.every((result) => result === null)
    ? delivery
    : { ...delivery, stated }
}

/** It is no record itself, whose fields may have any name. */
const isResultObject = (item: unknown): item is Record<string, unknown> =>
  isObject(item) && (Object.hasOwn(item, 'request_id') || Object.hasOwn(item, 'data'))

/**
 * Shares credits in proportion to weights, in decimals as fine as those of the credits, so that the parts add up to them. Where all weigh
 * nothing, all weigh the same. Pure.
 */
export function shareCredits(credits: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0)
  const [shares, of] = sum > 0 ? [weights, sum] : [weights.map(() => 1), weights.length]
  // In whole units: a sum of them is exact.
  const unit =
    [1, 10, 100, 1_000, 10_000, 100_000].find((n) => Number.isInteger(roundCredits(credits * n))) ?? 1e6
  const units = Math.round(credits * unit)
  const parts = shares.map((weight) => (units * weight) / of)
  const whole = parts.map(Math.floor)
  let left = units - whole.reduce((total, part) => total + part, 0)
  // Those that lose most by being rounded down get what is left; of equals, the first.
  const order = parts
    .map((part, n) => ({ n, lost: part - Math.floor(part) }))
    .sort((a, b) => b.lost - a.lost || a.n - b.n)
  for (const { n } of order) {
    if (left <= 0) break
    whole[n] = (whole[n] ?? 0) + 1
    left--
  }
  return whole.map((part) => roundCredits(part / unit))
}
