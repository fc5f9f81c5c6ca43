import { z } from 'zod'
import { rejecting, objectOf, objectLike, aFunction, oneOfStrings, requiredString } from './primitives.ts'
import { ALL_LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import { STATUS_MEANINGS } from '../domain/service/adapter.ts'
import { FIELD_FORMS, FIELD_TYPES } from '../domain/service/field-shape.ts'
import { parseRateLimit } from '../domain/service/documented-limit.ts'
import { listNames } from '../util/text.ts'
import {
  deliverySignature,
  sentHeaders,
  serviceAuth,
  bulkEndpoint,
  companyBulkEndpoint,
  companyEndpoint,
  isPosted,
  listDetails,
  personEndpoint,
  pollEndpoint,
} from './service-calls-schema.ts'

const EXPECTED_FIELD = "'text', 'number', 'list' or 'object', or { type: 'text', description: 'a job title' }"
const fields = z
  .record(
    z.string().regex(/^[^\s.]+(?:\.[^\s.]+)*$/, { error: "a field's path, such as 'company.name'" }),
    z.union(
      [
        oneOfStrings(FIELD_TYPES),
        objectOf({
          type: oneOfStrings(FIELD_TYPES),
          description: z.string().optional(),
          examples: z.array(z.unknown()).optional(),
          form: oneOfStrings(FIELD_FORMS).optional(),
        }),
      ],
      { error: EXPECTED_FIELD },
    ),
    { error: objectLike("{ job_title: 'text' }") },
  )
  .optional()

const EXPECTED_CREDITS =
  'a number of credits, with three decimals at most: 0.5 where the service bills half of one'
const credit = z
  .number({ error: EXPECTED_CREDITS })
  .min(0, { error: EXPECTED_CREDITS })
  .max(1_000, { error: 'at most 1,000 credits' })
  .refine((credits) => Math.round(credits * 1_000) / 1_000 === credits, { error: EXPECTED_CREDITS })
const bound = z.union(
  [
    credit,
    aFunction.refine(
      (most) => ALL_LOOKUP_KINDS.every((kind) => isBound(most as (kind: string) => unknown, kind)),
      {
        error: EXPECTED_CREDITS,
      },
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
const limitText = z
  .string({ error: EXPECTED_LIMIT })
  .refine((text) => parseRateLimit(text) !== null, { error: EXPECTED_LIMIT })
const limitTexts = z.union([limitText, z.array(limitText).min(1, { error: EXPECTED_LIMIT })], {
  error: EXPECTED_LIMITS,
})

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
        z.string().regex(/^(?!20[01]$)[2-5]\d\d$/, {
          error: 'a status other than 200 and 201, which `read` tells apart, such as 402',
        }),
        oneOfStrings(STATUS_MEANINGS),
        { error: objectLike("{ 402: 'out_of_credits' }") },
      )
      .optional(),
    webhook: objectOf(
      {
        signature: deliverySignature,
        read: aFunction.optional(),
      },
      "{ signature: { header: 'x-signature' } }",
    ).optional(),
    poll: pollEndpoint.optional(),
    rate: objectOf(
      {
        headers: z
          .custom<(headers: never) => unknown>((value) => typeof value === 'function', {
            error: "a function that returns headers under the usual names, such as 'x-ratelimit-limit'",
          })
          .optional(),
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
  for (const [name, endpoint] of Object.entries({ person, company, poll }))
    if (endpoint?.form === true && endpoint.body === undefined && !isPosted(name, endpoint.method))
      reject(
        [name, 'form'],
        'a form, where nothing is sent in a body',
        "an endpoint with a body: `method: 'POST'`, or `body`",
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
