import apollo from '../../../../examples/services/apollo.ts'
import fullEnrich from '../../../../examples/services/fullenrich.ts'
import peopleDataLabs from '../../../../examples/services/people-data-labs.ts'
import template from '../../../../examples/services/template.ts'
import { expect, test } from 'vitest'
import { parseConfig } from '../../../../src/config/load.ts'
import { ConfigProblems, type Problem } from '../../../../src/config/problems.ts'
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

/** Every problem of a description, as each command finds them. */
function findProblems(
  definition: unknown,
  outputs: Readonly<Record<string, string>> = { title: 'job_title' },
): readonly Problem[] {
  const source = { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs }
  try {
    parseConfig({ service: definition, sources: { contacts: source } }, null)
    return []
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems
    throw error
  }
}

const RIGHT: readonly (readonly [
  name: string,
  definition: ServiceDefinition,
  outputs?: Record<string, string>,
])[] = [
  ['People Data Labs', peopleDataLabs, { title: 'job_title' }],
  ['FullEnrich', fullEnrich, { title: 'headline' }],
  ['Apollo', apollo, { title: 'title' }],
  ['the template', template],
  ['with a company', good],
  ['with polls', polled],
  ['with a limit of polls', { ...polled, rate: { limit: { bulk: '9 per minute', poll: '15 per minute' } } }],
  ['with webhooks', { ...good, bulk: { path: '/v1/jobs' }, webhook }],
]

test.each(RIGHT.map((one) => [one[0], one] as const))(
  'a description without a mistake has no problem: %s',
  (_, [, definition, outputs]) => {
    expect(findProblems(definition, outputs)).toEqual([])
  },
)

const withPerson = (change: object): object => ({ ...good, person: { ...person, ...change } })
/**
 * Single mistakes of a person in a hurry. `place` and `words` are those of the message of `check` that finds it; the compiler
 * finds some of them, too.
 */
const MISTAKES: readonly (readonly [
  mistake: string,
  definition: object,
  place: string,
  words: RegExp,
  outputs?: Record<string, string>,
])[] = [
  ['auth in another case', { ...good, auth: 'Bearer' }, 'service.auth', /'bearer'/],
  ['a header with spaces', { ...good, auth: { header: 'X API Key' } }, 'service.auth.header', /'x-api-key'/],
  ...['v1/find', '/find?email={email}', 'https://a.example/find'].map(
    (path) =>
      [`the path ${path}`, withPerson({ path }), 'service.person.path', /a path from the base URL/] as const,
  ),
  [
    'a placeholder of no input',
    withPerson({ path: '/find/{mail}' }),
    'service.person.path',
    /\{mail\}.*\{email\}/,
  ],
  ['a method in lower case', withPerson({ method: 'post' }), 'service.person.method', /'POST'/],
  ['an async body', withPerson({ body: async () => ({}) }), 'service.person.body', /an async function/],
  ['an input by another name', withPerson({ inputs: ['mail'] }), 'service.person.inputs[0]', /'email'/],
  ['no input', withPerson({ inputs: [] }), 'service.person.inputs', /at least one input/],
  ['an async read', withPerson({ read: async () => undefined }), 'service.person.read', /an async function/],
  ['a key by another name', withPerson({ confidense: 'score' }), 'service.person.confidense', /unknown key/],
  [
    'a placeholder in the path of jobs',
    { ...good, bulk: { ...bulk, path: '/bulk/{email}' } },
    'service.bulk.path',
    /a path without placeholders/,
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
    /which `read` tells apart/,
  ],
  ['a limit in short', { ...good, rate: { limit: '60 per min' } }, 'service.rate.limit', /60 per minute/],
  [
    'credits below nothing',
    { ...good, credits: { most: (kind: string) => (kind === 'email' ? -1 : 1) } },
    'service.credits.most',
    /a number of credits/,
  ],
  [
    'an output that is no field',
    good,
    'sources.contacts.outputs.title',
    /'job_titel'.*Did you mean 'job_title'/,
    { title: 'job_titel' },
  ],
]

test.each(MISTAKES.map((one) => [one[0], one] as const))('%s', (_, [, definition, place, words, outputs]) => {
  const problems = findProblems(definition, outputs)
  const texts = problems.map((one) => `${one.place}: ${one.found} ${one.expected} ${one.todo ?? ''}`)
  expect(texts.find((text) => text.startsWith(`${place}: `))).toMatch(words)
  // One mistake, one problem.
  expect(texts).toHaveLength(1)
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
    /'domain' 'email', 'linkedin_url', 'name_company', .* or 'company_domain'/,
  ],
  [
    'details without a name',
    { person: { ...named, inputs: ['email', 'company_domain'] } },
    'service.person.inputs',
    /`name_company` beside 'first_name', 'last_name' and 'company_domain'/,
  ],
  [
    'details that are not sent singly',
    {
      bulk: {
        ...jobs,
        inputs: ['name_company', 'first_name'],
        body: ({ inputs }: JobInputs) => inputs,
        ordered: true,
      },
    },
    'service.bulk.inputs',
    /no first_name, last_name or company_domain, as in `person.inputs`: a lookup is one question/,
  ],
])('a job of other inputs than emails: %s', (_, change, place, words) => {
  const problems = findProblems({ ...good, person: named, bulk: undefined, ...change })
  const texts = problems.map((one) => `${one.place}: ${one.found} ${one.expected} ${one.todo ?? ''}`)
  expect(texts.find((text) => text.startsWith(`${place}: `))).toMatch(words)
  expect(texts).toHaveLength(1)
})

test('a job of any input, and one of companies, has no problem', () => {
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
  expect(findProblems(definition)).toEqual([])
  expect(findProblems({ ...definition, bulk: undefined })).toEqual([])
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
    // @ts-expect-error -- the rate headers as a list
    () => defineService({ name: 'a', person: { path }, rate: { headers: () => ['limit'] } }),
    // @ts-expect-error -- a size that is a text
    () => defineService({ name: 'a', person: { path }, bulk: { path, size: '25' } }),
  ]
  expect(compiled).toHaveLength(12)
})
