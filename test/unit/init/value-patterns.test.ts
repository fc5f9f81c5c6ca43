import { describe, expect, test } from 'vitest'
import { scoreValues, roleFromValues } from '../../../src/init/assign-roles.ts'
import type { ColumnRole } from '../../../src/init/roles.ts'

const times = (n: number, make: (i: number) => string): string[] =>
  Array.from({ length: n }, (_, i) => make(i))

describe('values that support the name', () => {
  test.each<[ColumnRole, (n: number) => string]>([
    ['email', (n) => `ada${n}@acme.example`],
    ['profile', (n) => `https://www.linkedin.com/in/ada-${n}`],
    ['profile', (n) => `linkedin.com/company/acme-${n}`],
    ['domain', (n) => `https://www.acme${n}.example/about`],
    ['domain', (n) => `acme${n}.example`],
    ['phone', (n) => `+47 22 33 44 ${10 + n}`],
    ['phone', (n) => `(555) 123-45${10 + n} ext. 7`],
    ['founded', (n) => String(1990 + n)],
    ['employees', (n) => `${n}1-${n}99`],
  ])('%s', (role, make) => {
    expect(scoreValues(role, times(10, make))).toBeGreaterThan(0)
  })
})

describe('values that contradict the name', () => {
  test.each<[ColumnRole, string, (n: number) => string]>([
    ['email', 'names', (n) => `Ada ${n}`],
    ['phone', 'words', () => 'by appointment'],
    ['domain', 'addresses', (n) => `ada${n}@acme.example`],
    ['profile', 'other pages', (n) => `https://example.com/${n}`],
    ['title', 'salutations', (n) => (n % 2 === 0 ? 'Mr.' : 'Mrs')],
    ['title', 'places in an order', (n) => `${n}.5`],
    ['industry', 'codes', (n) => String(1000 + n)],
    ['founded', 'dates', (n) => `2001-01-${10 + n}`],
  ])('%s: %s', (role, _, make) => {
    expect(scoreValues(role, times(10, make))).toBeLessThan(-100)
  })
})

test('a few values prove nothing', () => {
  expect(scoreValues('email', ['see notes', 'none'])).toBe(0)
  expect(scoreValues('title', [])).toBe(0)
})

test('values give a role to any column', () => {
  expect(roleFromValues(times(10, (n) => `ada${n}@acme.example`))).toBe('email')
  expect(roleFromValues(times(10, (n) => `https://linkedin.com/in/ada-${n}`))).toBe('profile')
  expect(roleFromValues(times(10, (n) => `acme${n}.example`))).toBeNull()
  expect(roleFromValues(['ada@acme.example'])).toBeNull()
})
