import { ALL_LOOKUP_KINDS, LOOKUP_KINDS, type LookupKind } from '../identifiers/kind.ts'
import { JOB_SIZE } from '../job.ts'
import { NAME_DETAILS, type NameDetail, type SourceKind } from '../mapping.ts'
import type { CalledEndpoint } from '../spend.ts'
import { createRecordReader, toRecordShape, type RecordReader } from '../record.ts'
import { completeShape, type RecordShapes } from '../record-fields.ts'
import {
  type AccountEndpoint,
  type BulkEndpoint,
  type CompanyInput,
  type LookupEndpoint,
  type PersonInput,
  type PollEndpoint,
  type RecordPlace,
  type ServiceDefinition,
  type ServiceReading,
  type WebhookDefinition,
  type WebhookSignature,
} from './adapter.ts'
import type { ServiceAuth } from './auth.ts'
import { toServiceFields } from './job-inputs.ts'
import type { BulkInput, QueryValues, ServiceAnswer } from './messages.ts'
import { parseDuration } from '../../util/format.ts'
import { isObject } from '../json.ts'
import { readCredits, type ServiceCredits } from './credits.ts'
import { type DocumentedLimit, readDocumentedLimits } from './documented-limit.ts'
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
  /** As it was described. */
  readonly definition: ServiceDefinition
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
  readonly shapes: RecordShapes
}

/** Placeholders of a path, `{email}`. */
const PLACEHOLDER = /\{(\w+)\}/g

/** Completes a definition. It must be valid: `parseService` checks it. */
export function createService(definition: ServiceDefinition): Service {
  const { person, company, bulk, companyBulk, webhook, poll, account, rate, fields } = definition
  const shapes: RecordShapes = {
    person: completeShapes(fields?.person),
    company: completeShapes(fields?.company),
  }
  const read = (kind: SourceKind, place: RecordPlace = {}): RecordReader =>
    createRecordReader(toRecordShape(kind, Object.keys(shapes[kind]), place))
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
    definition,
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
    shapes,
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

const completeShapes = (
  fields: Readonly<Record<string, Parameters<typeof completeShape>[0]>> = {},
): RecordShapes['person'] =>
  Object.fromEntries(Object.entries(fields).map(([path, field]) => [path, completeShape(field)]))

function createLookupCall<Input extends object>(
  endpoint: LookupEndpoint<Input>,
  kind: SourceKind,
  readRecord: RecordReader,
): LookupCall<Input> {
  const method = endpoint.method ?? (kind === 'person' ? 'POST' : 'GET')
  const toQuery =
    endpoint.query ?? (method === 'GET' ? (toServiceFields as (input: Input) => QueryValues) : null)
  const toBody = endpoint.body ?? (method === 'POST' ? toServiceFields : null)
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
      ...(hasPlaceholders && { path: fillPath(endpoint.path, toServiceFields(input)) }),
      ...(toQuery && { query: encodeQuery(toQuery(input)) }),
      ...(toBody && encodeBody(toBody(input), endpoint)),
    }),
  }
}

/** Every endpoint of jobs. */
export const listBulkCalls = ({ bulk, companyBulk }: Pick<Service, 'bulk' | 'companyBulk'>): BulkCall[] =>
  [bulk, companyBulk].filter((one) => one !== null)

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
    kinds: ALL_LOOKUP_KINDS.filter((one) => inputs.includes(one)),
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
    for (const one of Array.isArray(content) ? content : [content]) {
      if (one === null || one === undefined) continue
      if (typeof one === 'object' || typeof one === 'function')
        throw new TypeError(`a form has flat values: \`${name}\` holds ${describeHeld(one)}`)
      fields.append(name, String(one))
    }
  return fields.toString()
}

const describeHeld = (value: object): string =>
  Array.isArray(value) ? 'a list in a list' : typeof value === 'function' ? 'a function' : 'an object'
