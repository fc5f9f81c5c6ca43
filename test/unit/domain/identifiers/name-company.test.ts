import { describe, expect, test } from 'vitest'
import { normalizeNameCompany } from '../../../../src/domain/identifiers/name-company.ts'

const keyOf = (name: string | null, company: string | null) => {
  const normalized = normalizeNameCompany(name, company)
  return normalized?.ok === true ? normalized.key : normalized
}

describe('a name and a company', () => {
  test('are sent as typed with white space collapsed, and compared case-folded', () => {
    expect(normalizeNameCompany('  Jane\u00a0 Doe\n', 'ACME\tAS')).toEqual({
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
    expect(normalizeNameCompany(name, company)).toEqual({ ok: false, reason, input })
  })

  test('both blank is nothing', () => {
    expect(normalizeNameCompany(null, ' ')).toBeNull()
  })
})
