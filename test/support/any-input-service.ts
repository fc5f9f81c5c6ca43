import type { JobInput } from '../../src/domain/service/messages.ts'
import { defineService } from '../../src/domain/service/adapter.ts'

// A service that takes any input in bulk, people by what identifies them and companies by domain.

/** What the service knows an input by. */
export const nameOf = ({ email, linkedin_url, name, company, domain }: JobInput): string =>
  email ?? linkedin_url?.replace('https://www.', '') ?? domain ?? `${name}, ${company}`

interface Person {
  readonly id: number
  readonly title: string | null
}

/** People come from jobs that are fetched, under the number that was sent with each; companies in the answer. */
export default defineService({
  name: 'Any input',
  person: { path: '/person', record: { confidence: null } },
  company: { method: 'POST', path: '/company' },
  bulk: {
    path: '/people',
    size: 10,
    inputs: ['email', 'linkedin_url', 'name_company'],
    body: ({ inputs }) => ({ people: inputs.map((input, id) => ({ id, ...input })) }),
  },
  companyBulk: {
    path: '/companies',
    size: 8,
    results: 'answer',
    body: ({ inputs }) => ({ domains: inputs.map(({ domain }) => domain) }),
  },
  poll: {
    path: '/jobs/{job_id}',
    after: '100ms',
    read: ({ body }) => {
      const { people } = (body ?? {}) as { people?: readonly Person[] }
      if (people === undefined) return { outcome: 'pending' }
      const results = people.map(({ id, title, ...rest }) => ({
        index: id,
        data: title === null ? null : { title, ...rest },
      }))
      return { outcome: 'results', delivery: { results } }
    },
  },
  fields: { person: { title: 'text', email: 'text' }, company: { industry: 'text', domain: 'text' } },
})
