import { describe, expect, test } from 'vitest'
import { listNameKeys, normalizeNameCompany } from '../../../../src/domain/identifiers/name-company.ts'
import { NAME_DETAILS } from '../../../../src/domain/mapping.ts'

const keyOf = (name: string | null, company: string | null) => {
  const normalized = normalizeNameCompany({ name, company })
  return normalized?.ok === true ? normalized.key : normalized
}

describe('a name and a company', () => {
  test('are sent as typed with white space collapsed, and compared case-folded', () => {
    expect(normalizeNameCompany({ name: '  Jane\u00a0 Doe\n', company: 'ACME\tAS' })).toEqual({
      ok: true,
      key: 'jane+doe|acme+as',
      input: { name: 'Jane Doe', company: 'ACME AS' },
    })
  })

  test.each([
    ['Weiß', 'WEISS'],
    ['Ｊａｎｅ', 'jane'],
    ['Ren\u00e9', 'RENE\u0301'],
    ['ΟΔΟΣ', 'οδοσ'],
    ['ja\u00adne', 'Jane'],
  ])('%j and %j are one name', (a, b) => {
    expect(keyOf(a, 'Acme')).toBe(keyOf(b, 'Acme'))
    expect(keyOf('Acme', a)).toBe(keyOf('Acme', b))
  })

  test('distinct lookups have distinct keys', () => {
    const pairs = [
      ['a|b', 'c'],
      ['a', 'b|c'],
      ['a b', 'c'],
      ['a+b', 'c'],
      ['a%2bb', 'c'],
      ['a%7cb', 'c'],
    ] as const
    expect(new Set(pairs.map(([name, company]) => keyOf(name, company))).size).toBe(pairs.length)
  })

  test.each([
    ['', 'Acme', 'name', 'missing'],
    [null, 'Acme', 'name', 'missing'],
    ['Jane', ' \u200b', 'company', 'missing'],
    ['-', 'Acme', 'name', 'without a letter or digit'],
    ['\u3164', 'Acme', 'name', 'without a letter or digit'],
    ['Jane', '???', 'company', 'without a letter or digit'],
    ['Jane', 'a'.repeat(201), 'company', 'over 200 characters'],
  ])('rejects %j at %j', (name, company, input, reason) => {
    expect(normalizeNameCompany({ name, company })).toEqual({ ok: false, reason, input })
  })

  test('the details of a service are sent as given, and are a part of the key', () => {
    const raw = {
      name: 'Dr. Jane van Doe',
      company: 'Acme',
      first_name: ' Jane ',
      last_name: 'van  Doe',
      company_domain: 'https://www.Acme.com/about',
    }
    expect(normalizeNameCompany(raw, NAME_DETAILS)).toEqual({
      ok: true,
      key: 'dr.+jane+van+doe|acme|jane|van+doe|acme.com',
      input: {
        name: 'Dr. Jane van Doe',
        company: 'Acme',
        first_name: 'Jane',
        last_name: 'van Doe',
        company_domain: 'acme.com',
      },
    })
    expect(normalizeNameCompany(raw, ['last_name'])).toMatchObject({
      key: 'dr.+jane+van+doe|acme||van+doe|',
      input: { name: 'Dr. Jane van Doe', company: 'Acme', last_name: 'van Doe' },
    })
    // A service that takes none has the lookup that it always had.
    expect(normalizeNameCompany(raw)).toEqual(
      normalizeNameCompany({ name: 'Dr. Jane van Doe', company: 'Acme' }),
    )
  })

  test('a name is joined from its parts, and a domain stands for the company where it is taken', () => {
    const raw = { first_name: 'Jane', last_name: 'Doe', company_domain: 'acme.com' }
    expect(normalizeNameCompany(raw, ['company_domain'])).toEqual({
      ok: true,
      key: 'jane+doe||||acme.com',
      input: { name: 'Jane Doe', company_domain: 'acme.com' },
    })
    expect(normalizeNameCompany(raw)).toEqual({ ok: false, reason: 'missing', input: 'company' })
    expect(normalizeNameCompany({ ...raw, company: 'Acme' })).toEqual(
      normalizeNameCompany({ name: 'Jane Doe', company: 'Acme' }),
    )
  })

  test('an unusable detail is left out with a note, and no domain of mailboxes stands for a company', () => {
    const raw = { name: 'Jane', company_domain: 'gmail.com', last_name: '-' }
    expect(normalizeNameCompany({ ...raw, company: 'Acme' }, NAME_DETAILS)).toEqual({
      ok: true,
      key: 'jane|acme',
      input: { name: 'Jane', company: 'Acme' },
      notes: [
        { input: 'last_name', reason: 'without a letter or digit' },
        { input: 'company_domain', reason: 'free-mail host' },
      ],
    })
    expect(normalizeNameCompany(raw, NAME_DETAILS)).toEqual({
      ok: false,
      reason: 'free-mail host',
      input: 'company_domain',
    })
    expect(normalizeNameCompany({ ...raw, company: '?', company_domain: 'acme.no' }, NAME_DETAILS)).toEqual(
      expect.objectContaining({
        key: 'jane||||acme.no',
        notes: [
          { input: 'company', reason: 'without a letter or digit' },
          { input: 'last_name', reason: 'without a letter or digit' },
        ],
      }),
    )
  })

  test('one person has the same erased keys, whatever details a service takes', () => {
    const raw = {
      name: 'Dr Jane Doe',
      company: 'Acme|1',
      first_name: 'Jane',
      last_name: 'Doe',
      company_domain: 'acme.com',
    }
    const keyWith = (details: readonly (typeof NAME_DETAILS)[number][]): string => {
      const normalized = normalizeNameCompany(raw, details)
      return normalized?.ok === true ? normalized.key : ''
    }
    const all = listNameKeys(keyWith(NAME_DETAILS))
    expect(all.slice(1)).toEqual([
      'dr+jane+doe|acme%7c1',
      'dr+jane+doe|acme.com',
      'jane+doe|acme%7c1',
      'jane+doe|acme.com',
    ])
    for (let taken = 0; taken < 8; taken++) {
      const key = keyWith(NAME_DETAILS.filter((_, n) => (taken & (1 << n)) !== 0))
      expect(listNameKeys(key).filter((one) => one !== key && !all.includes(one))).toEqual([])
      expect(listNameKeys(key)).toContain('dr+jane+doe|acme%7c1')
    }
    expect(listNameKeys('jane+doe|acme')).toEqual(['jane+doe|acme'])
  })

  test('both blank is nothing', () => {
    expect(normalizeNameCompany({ name: null, company: ' ' })).toBeNull()
  })
})
