import { z } from 'zod'
import { ALL_LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import { STATUS_MEANINGS } from '../domain/service/adapter.ts'
import { FIELD_FORMS, FIELD_TYPES } from '../domain/service/field-shape.ts'
import { parseRateLimit } from '../domain/service/documented-limit.ts'
import { listNames } from '../util/text.ts'
import { aFunction, objectLike, oneOfStrings, requiredString } from './primitives.ts'
import { deliverySignature, sentHeaders, serviceAuth } from './service-auth-schema.ts'
import {
  bulkEndpoint,
  companyBulkEndpoint,
  companyEndpoint,
  isPosted,
  listDetails,
  personEndpoint,
  accountEndpoint,
  pollEndpoint,
} from './service-calls-schema.ts'

const EXPECTED_FIELD = "'text', 'number', 'list' or 'object', or { type: 'text', description: 'a job title' }"
const fields = z
  .record(
    z.string().regex(/^[^\s.]+(?:\.[^\s.]+)*$/, { error: "a field's path, such as 'company.name'" }),
    z.union(
      [
        oneOfStrings(FIELD_TYPES),
        z.strictObject({
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
export const serviceSchema = z
  .strictObject(
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
      webhook: z
        .strictObject(
          {
            signature: deliverySignature,
            read: aFunction.optional(),
          },
          { error: objectLike("{ signature: { header: 'x-signature' } }") },
        )
        .optional(),
      poll: pollEndpoint.optional(),
      account: accountEndpoint.optional(),
      rate: z
        .strictObject(
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
                  z.strictObject({
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
          { error: objectLike("{ limit: '60 per minute' }") },
        )
        .optional(),
      credits: z
        .strictObject(
          { most: bound, of: aFunction.optional() },
          { error: objectLike('{ most: 1, of: (kind, record) => (record === null ? 0 : 1) }') },
        )
        .optional(),
      fields: z
        .strictObject(
          { person: fields, company: fields },
          { error: objectLike("{ person: { job_title: 'text' } }") },
        )
        .optional(),
    },
    { error: "a service from defineService({ name: 'Acme Data', person: { path: '/v2/people/find' } })" },
  )
  .superRefine(({ person, company, bulk, companyBulk, webhook, poll }, context) => {
    if (person === undefined && company === undefined)
      context.addIssue({
        code: 'custom',
        path: ['person'],
        message: 'an endpoint for a person, a company, or both',
      })
    for (const [name, jobs, single] of [
      ['person', bulk, person],
      ['company', companyBulk, company],
    ] as const)
      if (jobs !== undefined && single === undefined)
        context.addIssue({
          code: 'custom',
          path: [name],
          message: `an endpoint for one ${name}: what a job leaves without a result is requested singly`,
        })
    const details = listDetails(person?.inputs)
    if (bulk?.inputs?.includes('name_company') && String(listDetails(bulk.inputs)) !== String(details))
      context.addIssue({
        code: 'custom',
        path: ['bulk', 'inputs'],
        message: `${listNames(details) || 'no first_name, last_name or company_domain'}, as in \`person.inputs\`: a lookup is one question, alone or in a job`,
      })
    for (const [name, endpoint] of Object.entries({ person, company, poll }))
      if (endpoint?.form === true && endpoint.body === undefined && !isPosted(name, endpoint.method))
        context.addIssue({
          code: 'custom',
          path: [name, 'form'],
          message: "an endpoint with a body: `method: 'POST'`, or `body`",
          params: { found: 'a form, where nothing is sent in a body' },
        })
    for (const [name, jobs] of Object.entries({ bulk, companyBulk })) {
      const results = jobs?.results ?? (poll === undefined ? 'webhook' : null)
      if (jobs !== undefined && results === 'webhook' && webhook === undefined)
        context.addIssue({
          code: 'custom',
          path: ['webhook'],
          message: "how deliveries are signed: { signature: { header: 'x-signature' } }, or `poll`",
          params: { found: `nothing, and \`${name}\` delivers its results by webhook` },
        })
      if (results === 'poll' && poll === undefined)
        context.addIssue({
          code: 'custom',
          path: ['poll'],
          message: "how a job is fetched: { path: '/v2/jobs/{job_id}' }",
          params: { found: `nothing, and the results of \`${name}\` are fetched` },
        })
    }
  })
