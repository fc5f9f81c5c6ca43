import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanText } from '../../../src/domain/text.ts'
import { toIdentifier, parseExactJson, parseJson } from '../../../src/domain/json.ts'

const ok = (value: unknown): unknown => ({ ok: true, value })

describe('parseJson', () => {
  test('reads what JSON.parse reads, except numbers that JavaScript would not reproduce', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        fc.pre(!/[\d.]{16}|\de[+-]?\d|\.\d*0/i.test(json))
        expect(parseJson(json)).toEqual(ok(JSON.parse(json)))
      }),
    )
  })

  test('reproduces every number, wherever it stands, beside texts that look like one', () => {
    const digits = fc.stringMatching(/^[1-9]\d{0,20}$/)
    const number = fc
      .tuple(
        fc.constantFrom('', '-'),
        digits,
        fc.option(fc.stringMatching(/^\d{1,20}$/)),
        fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'e-'), fc.stringMatching(/^[1-9]\d?$/))),
      )
      .map(
        ([sign, whole, fraction, exponent]) =>
          `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : exponent.join('')}`,
      )
    const text = fc.constantFrom('"3e12"', '"a, 12.50 b"', '"10.0.0.10"', '"12345678901234567890"', 'null')
    const blank = fc.constantFrom('', ' ', '\n\t')
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.oneof(number, text), blank)), (items) => {
        const array = (space: (text: string) => string): string =>
          `[${items.map(([item, blanks]) => `${space(blanks)}${item}${space(blanks)}`).join(',')}]`
        const object = (space: (text: string) => string): string =>
          `{${items.map(([item, blanks], n) => `"${n}":${space(blanks)}${item}`).join(',')}}`
        for (const write of [array, object])
          expect(JSON.stringify(parseExactJson(write((blanks) => blanks)))).toBe(write(() => ''))
      }),
    )
  })

  test.each([
    '{"n":12.50}',
    '[12345678901234567.89,1.0,1e400,0.12345678901234567890123]',
    '[-9007199254740993]',
  ])('reproduces numbers: %s', (json) => {
    const parsed = parseJson(json)
    expect(JSON.stringify(parsed)).toBe(`{"ok":true,"value":${json}}`)
    expect(cleanText([parsed, '\0'])).toEqual([parsed, ''])
  })

  test.each([
    ['[1e5000,-1e-5000]', ['1e5000', '-1e-5000']],
    ['[9007199254740991]', [9007199254740991]],
    ['[0.30000000000000004]', [0.1 + 0.2]],
    ['["12345678901234567890"]', ['12345678901234567890']],
    ['\uFEFF{}', {}],
  ])('%s', (json, value) => {
    expect(parseJson(json)).toEqual(ok(value))
  })

  test.each([
    ['', 'empty'],
    [' \n', 'empty'],
    ['{', 'not JSON'],
    ['{"a":01}', 'not JSON'],
    ['"half', 'not JSON'],
    ['<html>secret</html>', 'not JSON'],
  ])('%j is %s', (json, reason) => {
    expect(parseJson(json)).toEqual({ ok: false, reason })
  })

  test('counts nesting outside strings, and rejects it before parsing', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
    expect(parseJson(nested(100)).ok).toBe(true)
    expect(parseJson(nested(101))).toEqual({ ok: false, reason: 'nested more than 100 levels deep' })
    expect(parseJson('{"a":'.repeat(101) + '1' + '}'.repeat(101)).ok).toBe(false)
    const text = `${'['.repeat(200)}"\\`
    expect(parseJson(JSON.stringify([text, text]))).toEqual(ok([text, text]))
    expect(parseJson(`[${Array.from({ length: 500 }, () => '[[]]').join()}]`).ok).toBe(true)
    // Ten million brackets keep JSON.parse busy for seconds; the test would time out.
    expect(parseJson(nested(5_000_000)).ok).toBe(false)
  })

  test('a key __proto__ is a field', () => {
    const parsed = parseJson('{"__proto__":{"n":12345678901234567890}}')
    expect(JSON.stringify(parsed)).toBe('{"ok":true,"value":{"__proto__":{"n":12345678901234567890}}}')
  })
})

test('reads an identifier of 20 digits exactly', () => {
  expect(toIdentifier((parseJson('[12345678901234567890]') as { value: unknown[] }).value[0])).toBe(
    '12345678901234567890',
  )
})

test.each([
  ['a', 'a'],
  [7, '7'],
  [0, '0'],
  ['', null],
  ['  ', null],
  [null, null],
  [undefined, null],
  [{}, null],
  [true, null],
])('the identifier of %j is %j', (value, id) => {
  expect(toIdentifier(value)).toBe(id)
})

describe('parseExactJson', () => {
  test.each([
    '12.50',
    '{"a":[1000.00,-0,1e400,12345678901234567890,0.1234567890123456789]}',
    '1E5',
    '"12.50 and 12345678901234567890"',
  ])('reproduces %s', (text) => {
    expect(JSON.stringify(parseExactJson(text))).toBe(text)
  })

  test('plain numbers are numbers', () => {
    expect(parseExactJson('[1,-2.5,0.25,1234567890]')).toEqual([1, -2.5, 0.25, 1_234_567_890])
  })
})
