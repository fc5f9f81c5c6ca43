import { describe, expect, test } from 'vitest'
import { describeRowError } from '../../../src/sources/pg-errors.ts'
import { maskValues, maskWords } from '../../../src/util/text.ts'

describe('error texts of triggers', () => {
  test.each([
    ['contact 4711 is locked', 'contact … is locked'],
    ['contact 4711 (ada@example.com, +47 22 00 00 00) is locked', 'contact … (…) is locked'],
    ['contact 9f1c2b3a-0000-4000-8000-000000000000 is locked', 'contact … is locked'],
    ['"Ada Lovelace" may not change \'title\' of cust_0017', '… may not change … of …'],
    ['it may not become <NULL>', 'it may not become …'],
    ['changed at 2026-11-22 06:00:00, retry', 'changed at …, retry'],
    ["can't change it, it's closed", "can't change it, it's closed"],
    ['titles like this are not allowed', 'titles like this are not allowed'],
  ])('%s', (text, expected) => {
    expect(maskValues(text)).toBe(expected)
  })

  test('lose whole words of the row, in any case', () => {
    expect(maskWords('Ada Lovelace of ACME is blocked', ['ada', 'Ada Lovelace', 'Acme', 'bloc', 'of'])).toBe(
      '… of … is blocked',
    )
    expect(maskWords('a (b) [c]', ['(b)', '[c]', '\\', ''])).toBe('a … …')
    expect(maskWords('nothing', [])).toBe('nothing')
  })

  test('keep what Postgres says of types and constraints', () => {
    const message = (code: string, text: string): string => describeRowError({ code, message: text })
    expect(message('42883', 'function lower(int4) does not exist')).toBe(
      'function lower(int4) does not exist (42883)',
    )
    expect(message('22P02', 'invalid input syntax for type integer: "12a"')).toBe(
      'invalid input syntax for type integer (22P02)',
    )
    expect(message('P0001', 'contact 7 is locked')).toBe(
      'raised by a trigger or function: contact … is locked',
    )
    expect(message('CRM01', 'contact 7 is locked')).toBe('contact … is locked (CRM01)')
    expect(message('42501', 'only accounting may change 900125 of ada@example.com')).toBe(
      'only accounting may change … of … (42501)',
    )
  })
})
