import { expect, test } from 'vitest'
import { checkDescribed } from '../../../../src/cli/check/cases.ts'
import { tryFunctions } from '../../../../src/cli/check/trial.ts'
import { parseService } from '../../../../src/config/service.ts'
import type { ServiceDefinition } from '../../../../src/domain/service/adapter.ts'

const polled: ServiceDefinition = {
  name: 'Polled',
  person: { path: '/person' },
  bulk: { path: '/bulk' },
  poll: { path: '/jobs/{job_id}' },
  fields: { person: { title: 'text' } },
}
const costOf = (body: unknown): number => Number((body as { cost?: number } | null)?.cost)
const withRead = (
  read: NonNullable<NonNullable<ServiceDefinition['person']>['read']>,
): ServiceDefinition => ({
  ...polled,
  person: { path: '/person', read },
})
const withPoll = (poll: object): ServiceDefinition => ({
  ...polled,
  poll: { path: '/jobs/{job_id}', ...poll },
})

test.each<[string, ServiceDefinition, string, RegExp]>([
  [
    'a cost that is no number',
    withRead(({ body }) => ({ outcome: 'not_found', credits: costOf(body) })),
    'service.person.read',
    /^credits of NaN, for an empty body; a number from 0, or null/,
  ],
  [
    'a cost below nothing',
    withRead(() => ({ outcome: 'found', record: {}, confidence: 1, credits: -1 })),
    'service.person.read',
    /^credits of -1, .*; a number from 0/,
  ],
  [
    'a text as the cost of a result',
    withPoll({
      read: () => ({
        outcome: 'results',
        delivery: { results: [{ request_id: 'a', data: {}, credits: '3' }] },
      }),
    }),
    'service.poll.read',
    /^credits of a result of "3", .*; a number from 0/,
  ],
  [
    'a text as the cost of a job',
    withPoll({ read: () => ({ outcome: 'results', delivery: { results: [], credits: 'three' } }) }),
    'service.poll.read',
    /^credits of the delivery of "three", .*; a number from 0/,
  ],
  [
    'a page without a cursor',
    withPoll({ read: () => ({ outcome: 'more', delivery: { results: [] }, cursor: 2 }) }),
    'service.poll.read',
    /^a cursor that is 2, .*; a text that the next poll is made with/,
  ],
  [
    'a query that fails where there is no cursor',
    withPoll({ query: (_: string, cursor: string) => ({ after: cursor.trim() }) }),
    'service.poll.query',
    /^it throws for "JOB-1": TypeError/,
  ],
])('%s', (_, definition, place, words) => {
  const problems = tryFunctions(definition)
  expect(problems).toHaveLength(1)
  expect(problems[0]?.place).toBe(place)
  expect(`${problems[0]?.found}; ${problems[0]?.expected}`).toMatch(words)
})

test('a cost that is stated, pages, and their cursor are as they should be', () => {
  const definition: ServiceDefinition = {
    ...withRead(({ body }) => ({ outcome: 'not_found', credits: body === null ? null : 0.5 })),
    poll: {
      path: '/jobs/{job_id}',
      query: (_, cursor) => ({ after: cursor ?? undefined }),
      read: (_, { cursor }) => ({
        outcome: 'more',
        delivery: { results: [{ data: null, credits: 0.5 }], credits: undefined },
        cursor: `after ${cursor}`,
      }),
    },
  }
  expect(tryFunctions(definition)).toEqual([])
})

test('a case that costs more than a lookup reserves is a warning', async () => {
  const { service } = parseService({
    definition: {
      ...withRead(({ body }) => {
        const { cost } = (body ?? {}) as { cost?: number }
        return cost === undefined ? undefined : { outcome: 'not_found', credits: cost }
      }),
      credits: { hit: 1, miss: 0.5 },
    },
    place: 'service',
  })
  const cases = [0.5, 1, 1.5].map((cost) => ({
    name: `${cost} credits`,
    input: { email: 'ada@x.example' },
    answer: { body: { cost } },
    expect: { outcome: 'not_found', credits: cost },
  }))
  const { problems, verdict } = await checkDescribed(service!, { baseUrl: 'https://x.example' }, cases)
  expect(verdict).toBe('warning')
  expect(problems).toMatchObject([
    { place: 'service.credits', found: "1.5 credits in the case '1.5 credits', where a lookup reserves 1" },
  ])
})
