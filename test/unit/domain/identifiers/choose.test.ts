import { describe, expect, test } from 'vitest'
import { chooseLookup, type RawInputs } from '../../../../src/domain/identifiers/choose.ts'

const raw = (inputs: Partial<RawInputs>): Partial<RawInputs> => ({
  email: null,
  linkedin_url: null,
  name: null,
  company: null,
  domain: null,
  ...inputs,
})

const all = raw({
  email: 'Jane@acme.no',
  linkedin_url: 'linkedin.com/in/jane',
  name: 'Jane',
  company: 'Acme',
  domain: 'acme.no',
})

describe('the lookup of a person', () => {
  test('is by email first', () => {
    expect(chooseLookup('person', all)).toEqual({
      lookup: { kind: 'email', key: 'jane@acme.no', input: { email: 'jane@acme.no' } },
      notes: [],
    })
  })

  test('skips an invalid input, with a note', () => {
    expect(chooseLookup('person', { ...all, email: 'a@b.no, c@d.no' })).toEqual({
      lookup: {
        kind: 'linkedin_url',
        key: 'linkedin.com/in/jane',
        input: { linkedin_url: 'https://www.linkedin.com/in/jane' },
      },
      notes: [{ input: 'email', reason: 'list of addresses' }],
    })
  })

  test('skips blank inputs without a note', () => {
    expect(chooseLookup('person', raw({ email: ' ', name: 'Jane', company: 'Acme' }))).toEqual({
      lookup: { kind: 'name_company', key: 'jane|acme', input: { name: 'Jane', company: 'Acme' } },
      notes: [],
    })
  })

  test('is null if nothing is usable, with every reason', () => {
    expect(
      chooseLookup('person', raw({ email: 'x', linkedin_url: 'jane', name: 'Jane', domain: 'acme.no' })),
    ).toEqual({
      lookup: null,
      notes: [
        { input: 'email', reason: 'no @' },
        { input: 'linkedin_url', reason: 'bare handle' },
        { input: 'company', reason: 'missing' },
      ],
    })
  })

  test('is null if all inputs are blank', () => {
    expect(chooseLookup('person', raw({ domain: 'acme.no' }))).toEqual({
      lookup: null,
      notes: [{ input: 'email', reason: 'no input' }],
    })
  })

  test('ends a cascade after the last identifier', () => {
    const kinds: string[] = []
    let next = chooseLookup('person', all).lookup
    while (next !== null) {
      kinds.push(next.kind)
      next = chooseLookup('person', all, { after: next.kind }).lookup
    }
    expect(kinds).toEqual(['email', 'linkedin_url', 'name_company'])
    expect(chooseLookup('person', all, { after: 'domain' }).lookup).toBeNull()
  })
})

describe('the lookup of a company', () => {
  test('is by domain only', () => {
    expect(chooseLookup('company', all)).toEqual({
      lookup: { kind: 'domain', key: 'acme.no', input: { domain: 'acme.no' } },
      notes: [],
    })
    expect(chooseLookup('company', { ...all, domain: 'gmail.com' })).toEqual({
      lookup: null,
      notes: [{ input: 'domain', reason: 'free-mail host' }],
    })
    expect(chooseLookup('company', { ...all, domain: null })).toEqual({
      lookup: null,
      notes: [{ input: 'domain', reason: 'no input' }],
    })
  })
})
