import { describe, expect, it } from 'vitest'
import { findCompany, type PersonRecord, findPerson } from '../../../src/sandbox/people.ts'
import { DEFAULT_OPTIONS } from '../../../src/sandbox/options.ts'
import { canonicalEmail } from '../../../src/sandbox/requests.ts'

const count = 20_000
const ofEmail = (email: string, options = DEFAULT_OPTIONS) =>
  findPerson({ kind: 'email', key: canonicalEmail(email) ?? '' }, options)
const many = (): (PersonRecord | undefined)[] =>
  Array.from({ length: count }, (_, at) => ofEmail(`p${at}@firm${at % 500}.com`))
const share = <T>(all: readonly T[], is: (one: T) => boolean) => all.filter(is).length / all.length

// A snapshot: if it changes, every sandbox returns other records than before.
const golden = {
  person: {
    id: 'per_0a4fd023edb1ffa5',
    email: 'anna.berg@acme.com',
    name: { full: 'Anna Berg', first: 'Anna', last: 'Berg' },
    seniority: 'vp',
    phone: '+919404150929',
    company: { id: 'com_a9db8f7b8972dba2', name: 'Acme', domain: 'acme.com' },
    confidence: 0.1,
    last_updated: '2024-02-02T03:06:04.040Z',
  },
  company: {
    id: 'com_a9db8f7b8972dba2',
    name: 'Acme',
    legal_name: 'Acme Pvt. Ltd.',
    domain: 'acme.com',
    industry: 'Health Care',
    sub_industry: 'Hospitals',
    employee_count: 20,
    employee_range: '11-50',
    revenue: 5_281_020,
    revenue_range: '2-10 million',
    founded_year: 1936,
    location: { city: 'Pune', state: 'Maharashtra', country: 'India' },
    technologies: ['Go', 'Terraform', 'dbt'],
    social: { linkedin: 'https://www.linkedin.com/company/acme', twitter: 'https://twitter.com/acme' },
  },
}

describe('a record', () => {
  it('depends on the input alone', () => {
    expect(ofEmail('anna.berg@acme.com')).toEqual(golden.person)
    expect(findCompany({ kind: 'domain', key: 'acme.com' }, DEFAULT_OPTIONS)).toEqual(golden.company)
  })
})

describe('many records', () => {
  const all = many()
  const found = all.filter((record) => record !== undefined)

  it('have no match for about one in eight, or another share', () => {
    expect(1 - found.length / count).toBeGreaterThan(0.115)
    expect(1 - found.length / count).toBeLessThan(0.135)
    const half = Array.from({ length: count }, (_, at) =>
      findCompany({ kind: 'domain', key: `firm${at}.com` }, { seed: 3, notFoundShare: 0.5 }),
    )
    expect(Math.abs(share(half, (record) => record === undefined) - 0.5)).toBeLessThan(0.015)
  })

  it('are of other people with another seed, whom the first may know too', () => {
    const [first, second] = [1, 2].map((seed) =>
      Array.from({ length: count }, (_, at) =>
        findPerson({ kind: 'email', key: `p${at}@firm.com` }, { seed, notFoundShare: 0.4, missingShare: 0 }),
      ),
    )
    const all = (first ?? []).map((record, at) => [record, second?.[at]])
    const isKnownToBoth = share(all, (pair) => pair.every((record) => record !== undefined))
    expect(Math.abs(isKnownToBoth - 0.36)).toBeLessThan(0.015)
  })
})
