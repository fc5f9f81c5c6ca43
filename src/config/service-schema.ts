import { z } from 'zod'
import { toProblems, type Problem } from './problems.ts'
import { maskSentValues } from './environment.ts'
import { createService, type Service } from '../domain/service/service.ts'
import {
  rejecting,
  FIELD_PATH,
  objectOf,
  objectLike,
  aFunction,
  durationText,
  integerBetween,
  listOf,
  numberFromZero,
  oneOfStrings,
  requiredString,
  booleanFlag,
  textLike,
  textThat,
} from './primitives.ts'
import { ALL_LOOKUP_KINDS, LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import {
  STATUS_MEANINGS,
  BULK_RESULTS,
  CALL_METHODS,
  SIGNATURE_ALGORITHMS,
  SIGNATURE_ENCODINGS,
  type ServiceDefinition,
} from '../domain/service/adapter.ts'
import { FIELD_TYPES } from '../domain/record-fields.ts'
import { parseRateLimit } from '../domain/service/documented-limit.ts'
import { listNames, isLoopbackUrl } from '../util/text.ts'
import { MAX_JOB_SIZE } from '../domain/job.ts'
import { NAME_DETAILS } from '../domain/mapping.ts'

const fields = z
  .record(textLike(FIELD_PATH, "a field's path, such as 'company.name'"), oneOfStrings(FIELD_TYPES), {
    error: objectLike("{ job_title: 'text' }"),
  })
  .optional()

const EXPECTED_CREDITS =
  'a number of credits, with three decimals at most: 0.5 where the service bills half of one'
const credit = numberFromZero(EXPECTED_CREDITS)
  .max(1_000, { error: 'at most 1,000 credits' })
  .refine((credits) => Math.round(credits * 1_000) / 1_000 === credits, { error: EXPECTED_CREDITS })
const bound = z.union(
  [
    credit,
    aFunction.refine(
      (most) => ALL_LOOKUP_KINDS.every((kind) => isBound(most as (kind: string) => unknown, kind)),
      { error: EXPECTED_CREDITS },
    ),
  ],
  { error: EXPECTED_CREDITS },
)
function isBound(most: (kind: string) => unknown, kind: string): boolean {
  try {
    return credit.safeParse(most(kind)).success
  } catch {
    return false
  }
}
const EXPECTED_LIMIT = "a limit such as '60 per minute', '10 per 2 seconds' or '5000 per month'"
const EXPECTED_LIMITS = `${EXPECTED_LIMIT}, a list of them, or { person: '60 per minute' } for each endpoint`
const limitText = textThat((text) => parseRateLimit(text) !== null, EXPECTED_LIMIT)
const limitTexts = z.union([limitText, listOf(limitText, EXPECTED_LIMITS, EXPECTED_LIMIT)], {
  error: EXPECTED_LIMITS,
})

/** What a placeholder may stand for, by endpoint. */
const PERSON_PLACEHOLDERS = ['email', 'linkedin_url', 'name', 'company']
const COMPANY_PLACEHOLDERS = ['domain']

const EXPECTED_PATH = "a path from the base URL, such as '/v2/people/find'"
function pathWith(placeholders: readonly string[]) {
  const known = placeholders.map((placeholder) => `{${placeholder}}`)
  const expected = known.length === 0 ? 'a path without placeholders' : `one of ${known.join(', ')}`
  return textLike(/^\/[^\s?#]*$/, EXPECTED_PATH).superRefine((path, context) => {
    for (const [placeholder] of path.matchAll(/\{[^}]*\}/g))
      if (!known.includes(placeholder))
        rejecting(context)(
          [],
          `the placeholder ${placeholder}`,
          expected,
          'A query belongs into `query`, a body into `body`.',
        )
  })
}

/** What is sent beside the path, and how the answer is read. */
const bodyFields = {
  body: aFunction.optional(),
  form: booleanFlag.optional(),
  read: aFunction.optional(),
}
const requestFields = {
  method: oneOfStrings(CALL_METHODS).optional(),
  query: aFunction.optional(),
  ...bodyFields,
}

const recordPlace = objectOf(
  {
    wrappers: z.array(z.string(), { error: "a list of fields, such as ['data']" }).optional(),
    confidence: z.string({ error: "a field, such as 'likelihood', or null" }).nullable().optional(),
    confidenceMax: z.number({ error: 'a number above 0' }).positive({ error: 'a number above 0' }).optional(),
  },
  "{ confidence: 'likelihood', confidenceMax: 10 }",
)

function lookupEndpoint<const Inputs extends readonly [string, ...string[]]>(
  placeholders: readonly string[],
  inputs: Inputs,
) {
  return objectOf(
    {
      ...requestFields,
      path: pathWith(placeholders),
      inputs: listOf(
        oneOfStrings(inputs),
        'a list of inputs',
        'at least one input; leave `inputs` out for all',
      ).optional(),
      record: recordPlace.optional(),
    },
    "{ path: '/v2/people/find' }",
  )
}

const PERSON_INPUTS = [...LOOKUP_KINDS.person, ...NAME_DETAILS] as const

/** The details of a name that an endpoint takes. */
const listDetails = (inputs: readonly string[] | undefined): string[] =>
  NAME_DETAILS.filter((detail) => inputs?.includes(detail))

/** They are sent with a name and a company. */
const hasNameForDetails = ({ inputs }: { readonly inputs?: readonly string[] | undefined }): boolean =>
  inputs === undefined || inputs.includes('name_company') || listDetails(inputs).length === 0
const NEEDS_NAME = {
  path: ['inputs'],
  error: "`name_company` beside 'first_name', 'last_name' and 'company_domain'",
}

const personEndpoint = lookupEndpoint(PERSON_PLACEHOLDERS, PERSON_INPUTS).refine(
  hasNameForDetails,
  NEEDS_NAME,
)
const companyEndpoint = lookupEndpoint(COMPANY_PLACEHOLDERS, LOOKUP_KINDS.company)

const bulkFields = {
  ...bodyFields,
  path: pathWith([]),
  size: integerBetween(1, MAX_JOB_SIZE).optional(),
  results: oneOfStrings(BULK_RESULTS).optional(),
  ordered: booleanFlag.optional(),
}
/** Only of emails is it known what a body says of them. */
const bodyOf = (example: string, found: string) => ({
  path: ['body'],
  error: `a function that writes the inputs: ${example}`,
  params: { found: `nothing, and a job carries ${found}` },
})

const bulkEndpoint = objectOf(
  {
    ...bulkFields,
    inputs: listOf(
      oneOfStrings(PERSON_INPUTS),
      'a list of inputs',
      'at least one input; leave `inputs` out for emails',
    ).optional(),
  },
  "{ path: '/v2/people/bulk', size: 100 }",
)
  .refine(hasNameForDetails, NEEDS_NAME)
  .refine(
    ({ inputs = ['email'], body }) => body !== undefined || inputs.every((input) => input === 'email'),
    bodyOf('`({ inputs }) => ({ people: inputs })`', 'more than emails'),
  )
const companyBulkEndpoint = objectOf(bulkFields, "{ path: '/v2/companies/bulk', size: 100 }").refine(
  ({ body }) => body !== undefined,
  bodyOf('`({ inputs }) => ({ domains: inputs.map(({ domain }) => domain) })`', 'domains'),
)

const pollEndpoint = objectOf(
  {
    ...requestFields,
    path: pathWith(['job_id', 'cursor']),
    after: durationText(0).optional(),
  },
  "{ path: '/v2/jobs/{job_id}' }",
).refine(({ path, query, body }) => path.includes('{job_id}') || query !== undefined || body !== undefined, {
  path: ['path'],
  error: "the job's identifier: '/v2/jobs/{job_id}', or in `query` or `body`",
})

const EXPECTED_HEADER = "a header's name, such as 'x-api-key'"
const headerName = textLike(/^[!#$%&'*+.^_`|~\w-]+$/, EXPECTED_HEADER)
const EXPECTED_AUTH =
  "'bearer', 'basic', { header: 'x-api-key' }, { query: 'api_key' } or { oauth: { tokenUrl: '/oauth/token' } }"

const EXPECTED_TOKEN_URL =
  "an https address, such as 'https://auth.example.com/oauth/token', or a path below the base URL, such as '/oauth/token'"
/** RFC 6749, section 3.2: credentials are sent in clear text, so the endpoint requires TLS; its address has no fragment. */
const tokenUrl = textThat(
  (text) => {
    if (/^\/[^/\s#][^\s#]*$/.test(text)) return true
    const { protocol, username, password, hash } = URL.parse(text) ?? {}
    const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackUrl(text))
    return isSafe && username === '' && password === '' && hash === ''
  },
  EXPECTED_TOKEN_URL,
  'a text that is none (not shown)',
)

const EXPECTED_VALUE = 'a text that a header can hold; where it comes from a variable, a variable that is set'
/** Headers of every request. A value may be a secret, and is not shown. */
const sentHeaders = z
  .record(
    headerName,
    textThat(
      (text) => /^[\x20-\x7e]+$/.test(text),
      EXPECTED_VALUE,
      'an empty text, or one with other characters (not shown)',
    ),
    { error: objectLike("{ accept: 'application/json' }") },
  )
  .optional()

/** How the key is sent, or exchanged for a token. */
const serviceAuth = z.union(
  [
    z.enum(['bearer', 'basic'], { error: EXPECTED_AUTH }),
    objectOf({ header: headerName, prefix: z.string().optional() }),
    objectOf({ query: requiredString('a name') }),
    objectOf({ oauth: objectOf({ tokenUrl }, "{ tokenUrl: '/oauth/token' }") }),
  ],
  { error: EXPECTED_AUTH },
)

const EXPECTED_SIGNATURE =
  "an object such as { header: 'x-signature', algorithm: 'sha256', encoding: 'hex' }, or 'none' for deliveries without one"

/** How deliveries are signed, if they are. */
const deliverySignature = z.union(
  [
    z.literal('none', { error: EXPECTED_SIGNATURE }),
    objectOf({
      header: headerName,
      algorithm: oneOfStrings(SIGNATURE_ALGORITHMS).optional(),
      encoding: oneOfStrings(SIGNATURE_ENCODINGS).optional(),
      prefix: z.string().optional(),
    }),
  ],
  { error: EXPECTED_SIGNATURE },
)

/** What `defineService` describes, with a message for each mistake. `createService` fills in the defaults. */
export const serviceSchema = objectOf(
  {
    name: requiredString("the service's name"),
    auth: serviceAuth.optional(),
    headers: sentHeaders,
    person: personEndpoint.optional(),
    company: companyEndpoint.optional(),
    bulk: bulkEndpoint.optional(),
    companyBulk: companyBulkEndpoint.optional(),
    statuses: z
      .record(
        // What the body of a success says decides, in `read`.
        textLike(
          /^(?!20[01]$)[2-5]\d\d$/,
          'a status other than 200 and 201, which `read` tells apart, such as 402',
        ),
        oneOfStrings(STATUS_MEANINGS),
        { error: objectLike("{ 402: 'out_of_credits' }") },
      )
      .optional(),
    webhook: objectOf(
      { signature: deliverySignature, read: aFunction.optional() },
      "{ signature: { header: 'x-signature' } }",
    ).optional(),
    poll: pollEndpoint.optional(),
    account: objectOf(
      { path: pathWith([]), credits: aFunction.optional() },
      "{ path: '/v2/account' }",
    ).optional(),
    rate: objectOf(
      {
        headers: aFunction.optional(),
        limit: z
          .union(
            [
              limitTexts,
              objectOf({
                person: limitTexts.optional(),
                company: limitTexts.optional(),
                bulk: limitTexts.optional(),
                poll: limitTexts.optional(),
              }),
            ],
            { error: EXPECTED_LIMITS },
          )
          .optional(),
      },
      "{ limit: '60 per minute' }",
    ).optional(),
    credits: objectOf(
      { most: bound, of: aFunction.optional() },
      '{ most: 1, of: (kind, record) => (record === null ? 0 : 1) }',
    ).optional(),
    fields: objectOf({ person: fields, company: fields }, "{ person: { job_title: 'text' } }").optional(),
  },
  "{ name: 'Acme Data', person: { path: '/v2/people/find' } }",
).superRefine(({ person, company, bulk, companyBulk, webhook, poll }, context) => {
  const reject = rejecting(context)
  if (person === undefined && company === undefined)
    reject(['person'], undefined, 'an endpoint for a person, a company, or both')
  for (const [name, jobs, single] of [
    ['person', bulk, person],
    ['company', companyBulk, company],
  ] as const)
    if (jobs !== undefined && single === undefined)
      reject(
        [name],
        undefined,
        `an endpoint for one ${name}: what a job leaves without a result is requested singly`,
      )
  const details = listDetails(person?.inputs)
  if (bulk?.inputs?.includes('name_company') && String(listDetails(bulk.inputs)) !== String(details))
    reject(
      ['bulk', 'inputs'],
      undefined,
      `${listNames(details) || 'no first_name, last_name or company_domain'}, as in \`person.inputs\`: a lookup is one question, alone or in a job`,
    )
  for (const [name, jobs] of Object.entries({ bulk, companyBulk })) {
    const results = jobs?.results ?? (poll === undefined ? 'webhook' : null)
    if (jobs !== undefined && results === 'webhook' && webhook === undefined)
      reject(
        ['webhook'],
        `nothing, and \`${name}\` delivers its results by webhook`,
        "how deliveries are signed: { signature: { header: 'x-signature' } }, or `poll`",
      )
    if (results === 'poll' && poll === undefined)
      reject(
        ['poll'],
        `nothing, and the results of \`${name}\` are fetched`,
        "how a job is fetched: { path: '/v2/jobs/{job_id}' }",
      )
  }
})

/** A service as it was given: a value that is not checked yet, and where it is, for messages. */
export interface GivenService {
  readonly definition: unknown
  /** A file, or a key of the configuration. */
  readonly place: string
  /** Whether its module exports `cases`; absent: it is in the configuration itself, which exports none. */
  readonly hasCases?: boolean
}

/**
 * Checks a service. Every mistake is a problem with its place: a path that does not begin with a slash, a
 * placeholder that no input fills, an encoding that does not exist, a limit that cannot be read.
 */
export function parseService({ definition, place }: GivenService): {
  readonly service: Service | null
  readonly problems: readonly Problem[]
} {
  const parsed = serviceSchema.safeParse(definition)
  if (!parsed.success) return { service: null, problems: toProblems(parsed.error.issues, definition, place) }
  const service = createService(definition as ServiceDefinition)
  maskSentValues(service)
  return { service, problems: [] }
}
