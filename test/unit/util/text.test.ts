import { describe, expect, test } from 'vitest'
import { foldNames, maskValues } from '../../../src/util/text.ts'

describe('error texts of others', () => {
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
})

test('names are folded after a few', () => {
  expect(foldNames(['contacts'])).toBe('contacts')
  expect(foldNames(['contacts', 'accounts', 'leads'])).toBe('contacts, accounts, leads')
  const twelve = ['contacts', 'accounts', ...Array.from({ length: 10 }, (_, n) => `s${n}`)]
  expect(foldNames(twelve)).toBe('contacts, accounts and 10 more')
})
