import { expect, test } from 'vitest'
import * as apollo from '../../../../examples/services/apollo.ts'
import * as fullEnrich from '../../../../examples/services/fullenrich.ts'
import * as hunter from '../../../../examples/services/hunter.ts'
import * as leadiq from '../../../../examples/services/leadiq.ts'
import * as peopleDataLabs from '../../../../examples/services/people-data-labs.ts'
import * as snovFinder from '../../../../examples/services/snov-finder.ts'
import * as snov from '../../../../examples/services/snov.ts'
import template, { cases as templateCases } from '../../../../examples/services/template.ts'
import type { ServiceCase } from '../../../../src/actions/service-cases.ts'
import { checkDescribed } from '../../../../src/cli/check/cases.ts'
import { isSecretValue } from '../../../../src/cli/check/mistakes.ts'
import type { CheckedProblem } from '../../../../src/cli/check/finding.ts'
import { parseConfig } from '../../../../src/config/parse.ts'
import { ConfigProblems } from '../../../../src/config/problems.ts'
import { parseService } from '../../../../src/config/service.ts'
import { defineService, type ServiceDefinition } from '../../../../src/domain/service/adapter.ts'
import type { JobInputs, ServiceAnswer } from '../../../../src/domain/service/messages.ts'

/** The template, with everything that a description has. */
const good: ServiceDefinition = {
  ...template,
  company: { path: '/v1/companies/{domain}', query: () => ({ details: true }) },
  fields: { ...template.fields, company: { industry: 'text' } },
}
const person = template.person!
const bulk = template.bulk!
/** A service whose jobs are fetched. */
const polled: ServiceDefinition = {
  ...good,
  bulk: { path: '/v1/jobs', size: 25 },
  poll: { path: '/v1/jobs/{job_id}', after: '30s' },
}
const webhook = { signature: { header: 'x-signature', encoding: 'hex' } } as const

/** Every problem of a description, as `fillrate check` finds them. */
async function findProblems(
  definition: unknown,
  cases: readonly unknown[] = [],
  outputs: Readonly<Record<string, string>> = { title: 'job_title' },
): Promise<readonly Pick<CheckedProblem, 'place' | 'found' | 'expected' | 'todo'>[]> {
  const source = { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs }
  try {
    parseConfig({ service: definition, sources: { contacts: source } }, null)
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems
    throw error
  }
  const { service } = parseService({ definition, place: 'service' })
  return (await checkDescribed(service!, { baseUrl: 'https://api.acme.example' }, cases)).problems
}

/** With the inputs that each takes. */
test.each([hunter, snov, snovFinder, leadiq])('$default.name: nothing is wrong', async (example) => {
  const { service } = parseService({ definition: example.default, place: 'service' })
  const checked = await checkDescribed(service!, { baseUrl: 'https://api.acme.example' }, example.cases)
  expect(checked.problems).toEqual([])
})

const RIGHT: readonly (readonly [
  name: string,
  definition: ServiceDefinition,
  cases: readonly unknown[],
  outputs?: Record<string, string>,
])[] = [
  ['People Data Labs', peopleDataLabs.default, peopleDataLabs.cases, { title: 'job_title' }],
  ['FullEnrich', fullEnrich.default, fullEnrich.cases, { title: 'headline' }],
  ['Apollo', apollo.default, apollo.cases, { title: 'title' }],
  ['the template', template, templateCases],
  ['with a company', good, templateCases],
  ['with polls', polled, []],
  [
    'with a limit of polls',
    { ...polled, rate: { limit: { bulk: '9 per minute', poll: '15 per minute' } } },
    [],
  ],
  ['with webhooks', { ...good, bulk: { path: '/v1/jobs' }, webhook }, []],
]

test.each(RIGHT.map((one) => [one[0], one] as const))(
  'a description without a mistake has no problem: %s',
  async (_, [, definition, cases, outputs]) => {
    expect(await findProblems(definition, cases, outputs)).toEqual([])
  },
)

type Input = { email?: string; linkedinUrl?: string; name?: string; company?: string }
const withPerson = (change: object): object => ({ ...good, person: { ...person, ...change } })
const anyInput = { inputs: undefined, body: undefined }
const found: ServiceCase = {
  name: 'a match',
  input: { email: 'ada@example.com' },
  answer: { body: { match: { job_title: 'Analyst' }, likelihood: 8 } },
  expect: { outcome: 'found' },
}

/**
 * Forty single mistakes of a person in a hurry. `place` and `words` are those of the message of `check` that finds it; the
 * compiler finds some of them, too.
 */
const MISTAKES: readonly (readonly [
  mistake: string,
  definition: object,
  place: string,
  words: RegExp,
  more?: { readonly cases?: readonly ServiceCase[]; readonly outputs?: Record<string, string> },
])[] = [
  ['auth in another case', { ...good, auth: 'Bearer' }, 'service.auth', /'bearer'/],
  ['a header with spaces', { ...good, auth: { header: 'X API Key' } }, 'service.auth.header', /'x-api-key'/],
  [
    'the key among the headers',
    { ...good, headers: { Authorization: 'abc' } },
    'service.headers.Authorization',
    /looks like a key.*FILLRATE_API_KEY.*header: 'authorization'/,
  ],
  [
    'the key under a name of its own',
    { ...good, headers: { 'x-client': 'a8f5f167f44f4964e6c998dee827110c' } },
    'service.headers.x-client',
    /looks like a key/,
  ],
  [
    'a path without a slash',
    withPerson({ path: 'v1/find' }),
    'service.person.path',
    /a path from the base URL/,
  ],
  [
    'a path with a query',
    withPerson({ path: '/find?email={email}' }),
    'service.person.path',
    /a path from the base/,
  ],
  [
    'a whole URL',
    withPerson({ path: 'https://a.example/find' }),
    'service.person.path',
    /a path from the base URL/,
  ],
  [
    'a placeholder of no input',
    withPerson({ path: '/find/{mail}' }),
    'service.person.path',
    /\{mail\}.*\{email\}/,
  ],
  [
    'a placeholder that one input fills, and several inputs',
    withPerson({ ...anyInput, path: '/find/{email}' }),
    'service.person.path',
    /\{email\}, which is empty for linkedin_url, name_company.*inputs: \['email'\]/,
  ],
  ['a method in lower case', withPerson({ method: 'post' }), 'service.person.method', /'POST'/],
  ['a body of a GET', withPerson({ method: 'GET' }), 'service.person.body', /`query`, or `method: 'POST'`/],
  ['an async body', withPerson({ body: async () => ({}) }), 'service.person.body', /an async function/],
  [
    'a body that is a promise',
    withPerson({ body: (input: Input) => Promise.resolve(input) }),
    'service.person.body',
    /a promise.*value itself/,
  ],
  [
    'a body that takes no profile',
    withPerson({ ...anyInput, body: ({ email }: Input) => ({ mail: email!.toLowerCase() }) }),
    'service.person.body',
    /throws for \{"linkedinUrl":"https:\/\/www\.linkedin\.com\/in\/countess"\}: TypeError/,
  ],
  [
    'a field of the input by another name',
    withPerson({
      ...anyInput,
      body: (input: { linkedin_url?: string; email?: string }) => ({ of: input.linkedin_url ?? input.email }),
    }),
    'service.person.body',
    /a request without 'https:\/\/www\.linkedin\.com\/in\/countess'/,
  ],
  [
    'a placeholder in a query',
    withPerson({ query: () => ({ email: '{email}' }), body: undefined }),
    'service.person.query',
    /the placeholder \{email\}.*placeholders are filled in `path` alone/,
  ],
  [
    'an object in a query',
    withPerson({ query: (input: Input) => ({ params: input }), body: undefined }),
    'service.person.query',
    /'params' is an object/,
  ],
  ['an input by another name', withPerson({ inputs: ['mail'] }), 'service.person.inputs[0]', /'email'/],
  ['no input', withPerson({ inputs: [] }), 'service.person.inputs', /at least one input/],
  [
    'the field of the confidence by another name',
    good,
    'service.person.record.confidence',
    /without the field 'score', which counts as no match, in the case 'a match'.*Did you mean 'likelihood'/,
    { cases: [found] },
  ],
  [
    'no confidence, and no fields',
    { ...withPerson({ read: undefined, record: { confidence: null } }), fields: {}, credits: {} },
    'service.fields.person',
    /no record has a confidence/,
    { outputs: { title: 'any' } },
  ],
  ['an async read', withPerson({ read: async () => undefined }), 'service.person.read', /an async function/],
  [
    'a read that takes every body for an object',
    withPerson({
      read: ({ body }: { body: { found: boolean } }) => (body.found ? undefined : { outcome: 'not_found' }),
    }),
    'service.person.read',
    /it throws for an empty body: TypeError/,
  ],
  [
    'a read with an outcome of its own',
    withPerson({ read: () => ({ outcome: 'notfound' }) }),
    'service.person.read',
    /the outcome 'notfound'.*Did you mean 'not_found'/,
  ],
  [
    'a read with a confidence in percent',
    withPerson({ read: () => ({ outcome: 'found', record: {}, confidence: 87 }) }),
    'service.person.read',
    /a confidence of 87.*from 0 to 1/,
  ],
  [
    'a read of a header in upper case',
    withPerson({
      read: ({ headers }: { headers: Record<string, string> }) =>
        headers['X-Match'] === 'none' ? { outcome: 'not_found' } : undefined,
    }),
    'service.person.read',
    /reads the header 'X-Match'.*'x-match'/,
  ],
  ['a size of 0', { ...good, bulk: { ...bulk, size: 0 } }, 'service.bulk.size', /from 1 to/],
  [
    'jobs whose results never come',
    { ...good, bulk: { path: '/jobs' } },
    'service.webhook',
    /delivers its results by webhook/,
  ],
  [
    'polls that are not described',
    { ...good, bulk: { path: '/jobs', results: 'poll' } },
    'service.poll',
    /how a job is fetched/,
  ],
  [
    'a bulk call without the emails',
    { ...good, bulk: { ...bulk, body: () => ({ notify: true }) } },
    'service.bulk.body',
    /a request without 'ada@example\.com'/,
  ],
  [
    'results as a list',
    { ...good, bulk: { ...bulk, read: () => ({ outcome: 'results', delivery: [] }) } },
    'service.bulk.read',
    /a list.*an object with `results`/,
  ],
  [
    'an acceptance whose identifier is a number',
    { ...polled, bulk: { path: '/jobs', read: () => ({ outcome: 'accepted', jobId: 17 }) } },
    'service.bulk.read',
    /17.*a text, or null/,
  ],
  ['a poll of no job', { ...polled, poll: { path: '/jobs/status' } }, 'service.poll.path', /\{job_id\}/],
  [
    'a duration without a unit',
    { ...polled, poll: { path: '/jobs/{job_id}', after: '30' } },
    'service.poll.after',
    /30s/,
  ],
  [
    'an encoding that does not exist',
    { ...good, webhook: { signature: { header: 'x-signature', encoding: 'hexx' } } },
    'service.webhook.signature.encoding',
    /Did you mean 'hex'/,
  ],
  [
    'every answer as a miss',
    { ...good, statuses: { 200: 'not_found' } },
    'service.statuses["200"]',
    /for every answer with a record/,
  ],
  ['a limit in short', { ...good, rate: { limit: '60 per min' } }, 'service.rate.limit', /60 per minute/],
  [
    'the names of the rate headers under names of their own',
    { ...good, rate: { headers: (all: Record<string, string>) => ({ limit: all['x-quota'] }) } },
    'service.rate.headers',
    /'limit'.*x-ratelimit-limit/,
  ],
  [
    'credits of a field that no record has',
    { ...good, credits: { fields: { mobile_phon: 8 } } },
    'service.credits.fields.mobile_phon',
    /which no record has/,
  ],
  [
    'an output that is no field',
    good,
    'sources.contacts.outputs.title',
    /'job_titel'.*Did you mean 'job_title'/,
    { outputs: { title: 'job_titel' } },
  ],
]

test.each(MISTAKES.map((one) => [one[0], one] as const))(
  '%s',
  async (_, [, definition, place, words, more]) => {
    const { cases = [], outputs } = more ?? {}
    const problems = await findProblems(definition, cases, outputs)
    const texts = problems.map((one) => `${one.place}: ${one.found} ${one.expected} ${one.todo ?? ''}`)
    expect(texts.find((text) => text.startsWith(`${place}: `))).toMatch(words)
    // One mistake, one problem.
    expect(texts).toHaveLength(1)
  },
)

test('there are forty, each another one', () => {
  expect(new Set(MISTAKES.map(([mistake]) => mistake)).size).toBe(40)
})

const jobs = { path: '/v1/jobs', results: 'answer' } as const
const named = { ...person, inputs: undefined, body: undefined }
test.each<readonly [string, object, string, RegExp]>([
  [
    'names, and the default body',
    { bulk: { ...jobs, inputs: ['email', 'name_company'], ordered: true } },
    'service.bulk.body',
    /carries more than emails a function that writes the inputs: `\(\{ inputs \}\)/,
  ],
  [
    'domains, and the default body',
    { companyBulk: jobs },
    'service.companyBulk.body',
    /carries domains a function that writes the inputs/,
  ],
  [
    'a domain among people',
    { bulk: { ...jobs, inputs: ['domain'], body: ({ inputs }: JobInputs) => inputs } },
    'service.bulk.inputs[0]',
    /'domain' 'email', 'linkedin_url' or 'name_company'/,
  ],
  [
    'names, whose results nothing names',
    { bulk: { ...jobs, inputs: ['name_company'], body: ({ inputs }: JobInputs) => inputs } },
    'service.bulk.inputs',
    /nothing that says whose a result is .*`index`.*`ordered: true`/,
  ],
  [
    'inputs that are not requested singly',
    {
      person: { ...named, inputs: ['email'] },
      bulk: { ...jobs, inputs: ['email', 'linkedin_url'], body: ({ inputs }: JobInputs) => inputs },
    },
    'service.bulk.inputs',
    /linkedin_url, which `person` does not take/,
  ],
  [
    'a body that leaves out one of two kinds',
    { bulk: { ...jobs, inputs: ['email', 'linkedin_url'], body: ({ emails }: JobInputs) => ({ emails }) } },
    'service.bulk.body',
    /without 'https:\/\/www\.linkedin\.com\/in\/countess'/,
  ],
  [
    'a reader of companies that takes every body for a list',
    {
      companyBulk: {
        ...jobs,
        body: ({ inputs }: JobInputs) => inputs,
        read: ({ body }: ServiceAnswer) => ({
          outcome: 'results',
          delivery: { results: (body as object[]).map((data, index) => ({ index, data })) },
        }),
      },
    },
    'service.companyBulk.read',
    /it throws for/,
  ],
])('a job of other inputs than emails: %s', async (_, change, place, words) => {
  const problems = await findProblems({ ...good, person: named, bulk: undefined, ...change })
  const texts = problems.map((one) => `${one.place}: ${one.found} ${one.expected} ${one.todo ?? ''}`)
  expect(texts.find((text) => text.startsWith(`${place}: `))).toMatch(words)
  expect(texts).toHaveLength(1)
})

test('a job of any input, and one of companies, has no problem', async () => {
  const inOrder = ({ body }: ServiceAnswer, { inputs }: JobInputs) =>
    Array.isArray(body) && body.length === inputs.length
      ? {
          outcome: 'results' as const,
          delivery: { results: body.map((data: unknown, index) => ({ index, data })) },
        }
      : undefined
  const body = ({ inputs }: JobInputs) => ({ inputs })
  const definition = {
    ...good,
    person: named,
    bulk: { ...jobs, inputs: ['email', 'linkedin_url', 'name_company'], body, read: inOrder },
    companyBulk: { ...jobs, body },
    rate: { limit: { bulk: '10 per minute' } },
  }
  expect(await findProblems(definition)).toEqual([])
  expect(await findProblems({ ...definition, bulk: undefined })).toEqual([])
})

/*
 * tsc checks this: an expected error that does not come is an error itself.
 */
test('the compiler finds those that are of another type', () => {
  const path = '/find'
  const compiled = [
    // @ts-expect-error -- auth in another case
    () => defineService({ name: 'a', auth: 'Bearer', person: { path } }),
    // @ts-expect-error -- a method in lower case
    () => defineService({ name: 'a', person: { path, method: 'post' } }),
    // @ts-expect-error -- a field of the input by another name
    () => defineService({ name: 'a', person: { path, body: (input) => input.linkedin_url } }),
    // @ts-expect-error -- an object in a query
    () => defineService({ name: 'a', person: { path, query: (input) => ({ params: input }) } }),
    // @ts-expect-error -- an input by another name
    () => defineService({ name: 'a', person: { path, inputs: ['mail'] } }),
    // @ts-expect-error -- an async read
    () => defineService({ name: 'a', person: { path, read: async () => undefined } }),
    // @ts-expect-error -- a read that takes every body for an object
    () => defineService({ name: 'a', person: { path, read: ({ body }) => body.found } }),
    // @ts-expect-error -- a read with an outcome of its own
    () => defineService({ name: 'a', person: { path, read: () => ({ outcome: 'notfound' }) } }),
    // @ts-expect-error -- results as a list
    () => defineService({ name: 'a', person: { path }, bulk: { path, read: () => [] } }),
    () =>
      defineService({
        name: 'a',
        person: { path },
        // @ts-expect-error -- an encoding that does not exist
        webhook: { signature: { header: 'x', encoding: 'hexx' } },
      }),
    // @ts-expect-error -- the names of the rate headers under names of their own: a list is none
    () => defineService({ name: 'a', person: { path }, rate: { headers: () => ['limit'] } }),
    // @ts-expect-error -- a size that is a text
    () => defineService({ name: 'a', person: { path }, bulk: { path, size: '25' } }),
  ]
  expect(compiled).toHaveLength(12)
})

test.each([
  ['x-client', 'acme-crm-enrichment-v2-2026-11', false],
  ['accept', 'application/vnd.acme.v2026+json', false],
  ['x-api-version', '2026-11-26', false],
  ['user-agent', 'fillrate/0.1.0 (+https://acme.example)', false],
  ['x-client', '5f0c1b0e-7d0a-4a51-9a3e-1f6a0d2b9c77', true],
  ['x-client', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjEyMzQ1Njc4OTAxfQ.c2lnbmF0dXJlMTIzNDU2', true],
  ['x-client', 'sk_live_51', true],
  ['x-api-key', 'short', true],
  ['Cookie', 'a=b', true],
])('%s: %s looks like a secret: %s', (name, value, isSecret) => {
  expect(isSecretValue(name, value)).toBe(isSecret)
})

test('a message names no secret and no real person', async () => {
  const secret = 'sk_live_51Hxyz'
  const problems = await findProblems({ ...good, headers: { 'x-app': secret } })
  expect(problems).toHaveLength(1)
  expect(JSON.stringify(problems)).not.toContain(secret)
})
