import { z } from 'zod'
import { LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import { MAX_JOB_SIZE } from '../domain/job.ts'
import { NAME_DETAILS } from '../domain/mapping.ts'
import { BULK_RESULTS, CALL_METHODS } from '../domain/service/adapter.ts'
import { parseDuration } from '../util/format.ts'
import { aFunction, booleanFlag, objectLike, oneOfStrings } from './primitives.ts'

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

const PERSON_INPUTS = [...LOOKUP_KINDS.person, ...NAME_DETAILS] as const

/** The details of a name that an endpoint takes. */
export const listDetails = (inputs: readonly string[] | undefined): string[] =>
  NAME_DETAILS.filter((detail) => inputs?.includes(detail))

/** They are sent with a name and a company. */
const hasNameForDetails = ({ inputs }: { readonly inputs?: readonly string[] | undefined }): boolean =>
  inputs === undefined || inputs.includes('name_company') || listDetails(inputs).length === 0
const NEEDS_NAME = {
  path: ['inputs'],
  error: "`name_company` beside 'first_name', 'last_name' and 'company_domain'",
}

export const personEndpoint = lookupEndpoint(PERSON_PLACEHOLDERS, PERSON_INPUTS).refine(
  hasNameForDetails,
  NEEDS_NAME,
)
export const companyEndpoint = lookupEndpoint(COMPANY_PLACEHOLDERS, LOOKUP_KINDS.company)

const bulkFields = {
  path: pathWith([]),
  size: positive(MAX_JOB_SIZE).optional(),
  body: aFunction.optional(),
  form: booleanFlag.optional(),
  results: oneOfStrings(BULK_RESULTS).optional(),
  ordered: z.boolean().optional(),
  read: aFunction.optional(),
}
/** Only of emails is it known what a body says of them. */
const bodyOf = (example: string, found: string) => ({
  path: ['body'],
  error: `a function that writes the inputs: ${example}`,
  params: { found: `nothing, and a job carries ${found}` },
})

export const bulkEndpoint = z
  .strictObject(
    {
      ...bulkFields,
      inputs: z
        .array(oneOfStrings(PERSON_INPUTS), { error: 'a list of inputs' })
        .min(1, { error: 'at least one input; leave `inputs` out for emails' })
        .optional(),
    },
    { error: objectLike("{ path: '/v2/people/bulk', size: 100 }") },
  )
  .refine(hasNameForDetails, NEEDS_NAME)
  .refine(
    ({ inputs = ['email'], body }) => body !== undefined || inputs.every((input) => input === 'email'),
    bodyOf('`({ inputs }) => ({ people: inputs })`', 'more than emails'),
  )
export const companyBulkEndpoint = z
  .strictObject(bulkFields, { error: objectLike("{ path: '/v2/companies/bulk', size: 100 }") })
  .refine(
    ({ body }) => body !== undefined,
    bodyOf('`({ inputs }) => ({ domains: inputs.map(({ domain }) => domain) })`', 'domains'),
  )

export const accountEndpoint = z.strictObject(
  { path: pathWith([]), credits: aFunction.optional() },
  { error: objectLike("{ path: '/v2/account' }") },
)

const EXPECTED_DURATION = 'a duration such as 30s or 2m'
export const pollEndpoint = z
  .strictObject(
    {
      method,
      path: pathWith(['job_id', 'cursor']),
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
  .refine(({ path, query, body }) => path.includes('{job_id}') || query !== undefined || body !== undefined, {
    path: ['path'],
    error: "the job's identifier: '/v2/jobs/{job_id}', or in `query` or `body`",
  })

/** Whether an endpoint has a body of its own accord: a lookup that is posted, with the input's fields. */
export const isPosted = (endpoint: string, method: string | undefined): boolean =>
  endpoint !== 'poll' && (method ?? (endpoint === 'company' ? 'GET' : 'POST')) === 'POST'
