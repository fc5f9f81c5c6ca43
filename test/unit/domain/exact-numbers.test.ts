import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseExactJson } from '../../../src/domain/json.ts'

test.each([
  '12.50',
  '{"a":[1000.00,-0,1e400,12345678901234567890,0.1234567890123456789]}',
  '1E5',
  '"12.50 and 12345678901234567890"',
])('reproduces %s', (text) => {
  expect(JSON.stringify(parseExactJson(text))).toBe(text)
})

test('reproduces every number as Postgres wrote it', () => {
  const digits = fc.stringMatching(/^\d{1,25}$/)
  fc.assert(
    fc.property(fc.constantFrom('', '-'), digits, fc.option(digits), (sign, whole, fraction) => {
      const number = `${sign}${whole.replace(/^0+(?=\d)/, '')}${fraction === null ? '' : `.${fraction}`}`
      fc.pre(number !== '-0') // which no number of Postgres is
      const text = `{"n":[${number}]}`
      expect(JSON.stringify(parseExactJson(text))).toBe(text)
    }),
  )
})

test('plain numbers are numbers', () => {
  expect(parseExactJson('[1,-2.5,0.25,1234567890]')).toEqual([1, -2.5, 0.25, 1_234_567_890])
})
