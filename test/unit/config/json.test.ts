import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeFrame, positionAt } from '../../../src/config/location.ts'
import { JsonSyntaxError, parseConfigJson } from '../../../src/config/json.ts'

type Attempt = { ok: true; value: unknown } | { ok: false; error: unknown }

function attempt(parse: (text: string) => unknown, text: string): Attempt {
  try {
    return { ok: true, value: parse(text) }
  } catch (error) {
    return { ok: false, error }
  }
}

describe('JSON', () => {
  test('is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, '\t', 2), (json, space) => {
        const text = JSON.stringify(JSON.parse(json), null, space)
        expect(parseConfigJson(text)).toEqual(JSON.parse(text))
      }),
    )
    expect(parseConfigJson('\ufeff{"a":1}')).toEqual({ a: 1 })
    expect(Object.hasOwn(Object(parseConfigJson('{"__proto__":1}')), '__proto__')).toBe(true)
  })

  test('is rejected exactly where JSON.parse rejects it', () => {
    const signs = fc.string({ unit: fc.constantFrom(...'{}[]":,0-1.e+truefalsn\\ \n/\t'), maxLength: 8 })
    const damaged = fc.tuple(fc.json(), signs, fc.nat(), fc.nat(3)).map(([json, insert, at, cut]) => {
      const start = at % (json.length + 1)
      return json.slice(0, start) + insert + json.slice(start + cut)
    })
    let rejectedCount = 0
    const agrees = (text: string): boolean => {
      const [expected, actual] = [attempt(JSON.parse, text), attempt(parseConfigJson, text)]
      if (expected.ok && actual.ok) return isDeepStrictEqual(actual.value, expected.value)
      if (actual.ok || !(actual.error instanceof JsonSyntaxError)) return false
      // JSON.parse keeps the last of two equal keys.
      if (expected.ok) return actual.error.expected === 'each key once'
      rejectedCount++
      return actual.error.offset >= 0 && actual.error.offset <= text.length
    }
    fc.assert(fc.property(fc.oneof(signs, damaged), agrees), { numRuns: 3000 })
    expect(rejectedCount).toBeGreaterThan(100)
  })

  test.each([
    ['{"a": 1,}', 8, 'a key in double quotes'],
    ['{"a": 1 "b": 2}', 8, 'a comma or }'],
    ['{a: 1}', 1, 'a key in double quotes'],
    ["{'a': 1}", 1, 'a key in double quotes'],
    ['{"a" 1}', 5, 'a colon'],
    ['{"a": }', 6, 'a value'],
    ['[1, 2', 5, 'a comma or ]'],
    ['{"a": 1', 7, 'a comma or }'],
    ['', 0, 'a value'],
    ['// comment\n{}', 0, 'a value'],
    ['{} {}', 3, 'nothing after the last }'],
    ['{"a": "b\n"}', 6, 'a text that ends with " on its line'],
    ['{"a": "\\d"}', 6, 'a text whose backslashes are doubled, as in "\\\\d"'],
    ['{"a": 01}', 6, 'a value'],
    ['{"a": True}', 6, 'a value'],
    ['{"a": 1, "a": 2}', 9, 'each key once'],
  ])('%j fails at %i', (text, offset, expected) => {
    expect(attempt(parseConfigJson, text)).toMatchObject({
      ok: false,
      error: { name: 'JsonProblem', offset, expected },
    })
  })
})

describe('a position in a text', () => {
  test('is a line and a column, and a caret under it', () => {
    const text = '{\r\n\t"a": 1\r\n  "b": 2\n}'
    const offset = text.indexOf('"b"')
    expect(positionAt(text, offset)).toEqual({ line: 3, column: 3 })
    expect(codeFrame(text, 3, 3)).toBe('3 |   "b": 2\n      ^')
    expect(codeFrame(text, 2, 2)).toBe('2 |  "a": 1\n     ^')
    expect(codeFrame(text, 9, 1)).toBeNull()
  })

  test('stays visible on a long line', () => {
    const [line, caret] = (codeFrame(`${'x'.repeat(5000)}!${'y'.repeat(5000)}`, 1, 5001) ?? '').split('\n')
    expect(line?.length).toBeLessThan(100)
    expect(line?.[caret?.indexOf('^') ?? -1]).toBe('!')
  })

  test('shows no password', () => {
    expect(codeFrame('"postgres://jane:s3cret@host/crm" :', 1, 36)).toBe(
      '1 | "postgres://jane:***@host/crm" :',
    )
  })
})
