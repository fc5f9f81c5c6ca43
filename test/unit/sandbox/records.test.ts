import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  companyRecord,
  findCompany,
  type PersonRecord,
  findPerson,
  toPersonRecord,
} from '../../../src/sandbox/people.ts'
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

  it('differs with another seed', () => {
    const other = toPersonRecord(
      { kind: 'email', key: 'anna.berg@acme.com' },
      { ...DEFAULT_OPTIONS, seed: 2 },
    )
    expect(other.id).not.toBe(golden.person.id)
  })

  it('does not change with the case of an email or the white space around it', () => {
    const pad = fc.stringMatching(/^[ \t\n]{0,3}$/)
    const email = fc.tuple(fc.stringMatching(/^[a-z][a-z0-9.+-]{0,12}$/), fc.stringMatching(/^[a-z]{1,9}$/))
    const cased = fc.func(fc.boolean())
    fc.assert(
      fc.property(email, pad, pad, cased, ([local, label], before, after, isUpper) => {
        const plain = `${local}@${label}.com`
        const odd = [...plain].map((sign, at) => (isUpper(at) ? sign.toUpperCase() : sign)).join('')
        expect(ofEmail(`${before}${odd}${after}`)).toEqual(ofEmail(plain))
      }),
    )
    expect.hasAssertions()
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

  it('always have a confidence from 0 to 1, some of them under 0.7', () => {
    expect(found.every(({ confidence }) => confidence >= 0 && confidence <= 1)).toBe(true)
    const low = share(found, ({ confidence }) => confidence < 0.7)
    expect(low).toBeGreaterThan(0.2)
    expect(low).toBeLessThan(0.3)
  })

  it.each([
    ['title', 0.15],
    ['seniority', 0.15],
    ['department', 0.15],
    ['linkedin', 0.15],
    ['company', 0.15],
    ['phone', 0.2775],
  ] as const)('lack %s in a share of about %d', (field, expected) => {
    expect(Math.abs(share(found, (record) => record[field] === undefined) - expected)).toBeLessThan(0.02)
  })

  it('lack fields independently', () => {
    const both = share(found, ({ title, phone }) => title === undefined && phone === undefined)
    expect(Math.abs(both - 0.15 * 0.2775)).toBeLessThan(0.01)
    expect(share(found, ({ name }) => name?.full !== undefined && name.first === undefined)).toBeGreaterThan(
      0.05,
    )
  })

  it('have telephone numbers in E.164, and dates in ISO 8601 UTC', () => {
    const phones = found.flatMap(({ phone }) => phone ?? [])
    expect(phones.filter((phone) => !/^\+[1-9]\d{7,14}$/.test(phone))).toEqual([])
    expect(found.filter(({ last_updated: date }) => new Date(date).toISOString() !== date)).toEqual([])
  })

  it('have unique identifiers', () => {
    const ids = Array.from(
      { length: 100_000 },
      (_, at) => toPersonRecord({ kind: 'email', key: `${at}@acme.com` }, DEFAULT_OPTIONS).id,
    )
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('of companies have whole numbers and matching ranges', () => {
    const companies = Array.from({ length: 2_000 }, (_, at) => companyRecord(1, `firm${at}.com`))
    const wrong = companies.filter((record) => {
      const [low = '', high = '9999999'] = record.employee_range.replace('+', '').split('-')
      const isInRange = Number(low) <= record.employee_count && record.employee_count <= Number(high)
      return !isInRange || !Number.isInteger(record.revenue) || !Number.isInteger(record.founded_year)
    })
    expect(wrong).toEqual([])
    expect(share(companies, ({ revenue }) => revenue > 2 ** 31)).toBeGreaterThan(0)
    expect(share(companies, ({ technologies }) => technologies.length === 0)).toBeGreaterThan(0)
  })
})
