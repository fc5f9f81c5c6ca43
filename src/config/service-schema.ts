import { z } from 'zod'
import { LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import { MAX_JOB_SIZE } from '../domain/job.ts'
import { BULK_RESULTS, CALL_METHODS, STATUS_MEANINGS } from '../domain/service/adapter.ts'
import { FIELD_FORMS, FIELD_TYPES } from '../domain/service/field-shape.ts'
import { parseRateLimit } from '../domain/service/documented-limit.ts'
import { parseDuration } from '../util/format.ts'
import { booleanFlag, objectLike, oneOfStrings, requiredString } from './primitives.ts'
import {
  aFunction,
  deliverySignature,
  headerName,
  parameterName,
  sentValues,
  serviceAuth,
} from './service-auth-schema.ts'

/** What a placeholder may stand for, by endpoint. */
const PERSON_PLACEHOLDERS = ['email', 'linkedin_url', 'name', 'company']
const COMPANY_PLACEHOLDERS = ['domain']

const EXPECTED_PATH = "a path from the base URL, such as '/v2/people/find'"
function pathWith(placeholders: readonly string[]) {
  return z
    .string({ error: EXPECTED_PATH })
    .regex(/^\/[^\s?#]*$/, { error: EXPECTED_PATH })
    .superRefine((path, context) => {
      for (const [whole, name = ''] of path.matchAll(/\{([^}]*)\}/g)) {
        if (placeholders.includes(name)) continue
        const todo = 'A query belongs into `query`, a body into `body`.'
        context.addIssue({
          code: 'custom',
          message:
            placeholders.length === 0
              ? 'a path without placeholders'
              : `one of ${placeholders.map((one) => `{${one}}`).join(', ')}`,
          params: { found: `the placeholder ${whole}`, todo },
        })
      }
    })
}

const method = oneOfStrings(CALL_METHODS).optional()
const positive = (most: number) =>
  z
    .int({ error: `a whole number from 1 to ${most}` })
    .min(1, { error: `a whole number from 1 to ${most}` })
    .max(most, { error: `a whole number from 1 to ${most}` })

const recordPlace = z.strictObject(
  {
    wrappers: z.array(z.string(), { error: "a list of fields, such as ['data']" }).optional(),
    confidence: z.string({ error: "a field, such as 'likelihood', or null" }).nullable().optional(),
    confidenceMax: z.number({ error: 'a number above 0' }).positive({ error: 'a number above 0' }).optional(),
  },
  { error: objectLike("{ confidence: 'likelihood', confidenceMax: 10 }") },
)

function lookupEndpoint<const Inputs extends readonly [string, ...string[]]>(
  placeholders: readonly string[],
  inputs: Inputs,
) {
  return z.strictObject(
    {
      method,
      path: pathWith(placeholders),
      query: aFunction.optional(),
      body: aFunction.optional(),
      form: booleanFlag.optional(),
      inputs: z
        .array(oneOfStrings(inputs), { error: 'a list of inputs' })
        .min(1, { error: 'at least one input; leave `inputs` out for all' })
        .optional(),
      record: recordPlace.optional(),
      read: aFunction.optional(),
    },
    { error: objectLike("{ path: '/v2/people/find' }") },
  )
}

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
          isAtomic: z.boolean().optional(),
        }),
      ],
      { error: EXPECTED_FIELD },
    ),
    { error: objectLike("{ job_title: 'text' }") },
  )
  .optional()

const EXPECTED_CREDITS =
  'a whole number of credits; if the service bills parts of one, count in its smallest part'
const credit = z.int({ error: EXPECTED_CREDITS }).min(0, { error: EXPECTED_CREDITS }).max(1_000, {
  error: 'at most 1,000 credits',
})
const creditsByInput = z
  .union(
    [
      credit,
      z.strictObject({
        email: credit.optional(),
        linkedin_url: credit.optional(),
        name_company: credit.optional(),
        domain: credit.optional(),
      }),
    ],
    { error: `${EXPECTED_CREDITS}; or { email: 1, linkedin_url: 2 }` },
  )
  .optional()
const EXPECTED_DURATION = 'a duration such as 30s or 2m'
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
      headers: sentValues(headerName, "{ accept: 'application/json' }"),
      query: sentValues(parameterName, "{ version: '2' }"),
      person: lookupEndpoint(PERSON_PLACEHOLDERS, LOOKUP_KINDS.person).optional(),
      personByEmail: lookupEndpoint(['email'], ['email']).optional(),
      company: lookupEndpoint(COMPANY_PLACEHOLDERS, LOOKUP_KINDS.company).optional(),
      bulk: z
        .strictObject(
          {
            method,
            path: pathWith([]),
            size: positive(MAX_JOB_SIZE).optional(),
            body: aFunction.optional(),
            form: booleanFlag.optional(),
            results: oneOfStrings(BULK_RESULTS).optional(),
            readAcceptance: aFunction.optional(),
            ordered: z.boolean().optional(),
            readResults: aFunction.optional(),
          },
          { error: objectLike("{ path: '/v2/people/bulk', size: 100 }") },
        )
        .optional(),
      statuses: z
        .record(
          z.string().regex(/^[2-5]\d\d$/, { error: 'a status, such as 402' }),
          oneOfStrings(STATUS_MEANINGS),
          { error: objectLike("{ 402: 'unauthorized' }") },
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
      poll: z
        .strictObject(
          {
            method,
            path: pathWith(['job_id']),
            query: aFunction.optional(),
            body: aFunction.optional(),
            form: booleanFlag.optional(),
            after: z
              .string({ error: EXPECTED_DURATION })
              .refine((text) => parseDuration(text) !== null, { error: EXPECTED_DURATION })
              .optional(),
            read: aFunction.optional(),
          },
          { error: objectLike("{ path: '/v2/jobs/{job_id}' }") },
        )
        .refine(
          ({ path, query, body }) => path.includes('{job_id}') || query !== undefined || body !== undefined,
          {
            path: ['path'],
            error: "the job's identifier: '/v2/jobs/{job_id}', or in `query` or `body`",
          },
        )
        .optional(),
      rate: z
        .strictObject(
          {
            headers: z
              .union(
                [
                  z.strictObject({
                    limit: headerName.optional(),
                    remaining: headerName.optional(),
                    reset: headerName.optional(),
                    retryAfter: headerName.optional(),
                  }),
                  aFunction,
                ],
                { error: 'names of headers, or a function that returns them under the usual names' },
              )
              .optional(),
            limit: z
              .union(
                [
                  limitTexts,
                  z.strictObject({
                    person: limitTexts.optional(),
                    company: limitTexts.optional(),
                    bulk: limitTexts.optional(),
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
          { hit: creditsByInput, miss: creditsByInput, fields: z.record(z.string(), credit).optional() },
          { error: objectLike('{ hit: 1, miss: 0 }') },
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
  .superRefine(
    ({ person, personByEmail, company, bulk, webhook, poll, credits, fields: described }, context) => {
      if (person === undefined && company === undefined)
        context.addIssue({
          code: 'custom',
          path: ['person'],
          message: 'an endpoint for a person, a company, or both',
        })
      if (bulk !== undefined && person === undefined)
        context.addIssue({
          code: 'custom',
          path: ['person'],
          message: 'an endpoint for one person: what a job leaves without a result is requested singly',
        })
      for (const [name, endpoint] of Object.entries({ person, personByEmail, company, poll }))
        if (endpoint?.form === true && endpoint.body === undefined && !isPosted(name, endpoint.method))
          context.addIssue({
            code: 'custom',
            path: [name, 'form'],
            message: "an endpoint with a body: `method: 'POST'`, or `body`",
            params: { found: 'a form, where nothing is sent in a body' },
          })
      const results = bulk?.results ?? (poll === undefined ? 'webhook' : null)
      if (bulk !== undefined && results === 'webhook' && webhook === undefined)
        context.addIssue({
          code: 'custom',
          path: ['webhook'],
          message: "how deliveries are signed: { signature: { header: 'x-signature' } }, or `poll`",
          params: { found: 'nothing, and `bulk` delivers its results by webhook' },
        })
      if (results === 'poll' && poll === undefined)
        context.addIssue({
          code: 'custom',
          path: ['poll'],
          message: "how a job is fetched: { path: '/v2/jobs/{job_id}' }",
          params: { found: 'nothing, and the results of `bulk` are fetched' },
        })
      const known = new Set([
        ...Object.keys(described?.person ?? {}),
        ...Object.keys(described?.company ?? {}),
      ])
      for (const field of Object.keys(credits?.fields ?? {}))
        if (!known.has(field))
          context.addIssue({
            code: 'custom',
            path: ['credits', 'fields', field],
            message: 'a field of `fields`',
            params: { found: `'${field}', which no record has` },
          })
    },
  )

/** Whether an endpoint has a body of its own accord: a lookup that is posted, with the input's fields. */
const isPosted = (endpoint: string, method: string | undefined): boolean =>
  endpoint !== 'poll' && (method ?? (endpoint === 'company' ? 'GET' : 'POST')) === 'POST'
