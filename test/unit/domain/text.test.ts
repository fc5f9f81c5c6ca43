import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanText } from '../../../src/domain/text.ts'

const half = fc.constantFrom('\0', '\ud800', '\udfff', 'a', '😀', '\ud83d', '\ude00', '__proto__')
const dirtyText = fc.array(half, { maxLength: 8 }).map((parts) => parts.join(''))
const dirty = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    dirtyText,
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(dirtyText, tie('value'), { maxKeys: 4 }),
  ),
})).value

describe('cleanText', () => {
  test.each([
    ['a\0b', 'ab'],
    ['\ud83d\0\ude00', ''],
    ['x\ud83d', 'x'],
    ['\ude00x', 'x'],
    ['\ud83d\ud83d\ude00', '😀'],
    ['😀', '😀'],
    ['', ''],
  ])('%j becomes %j', (text, cleaned) => {
    expect(cleanText(text)).toBe(cleaned)
  })

  test('cleans every string and key, and changes nothing else', () => {
    const value = { 'a\0': ['b\0', 1, null, true, { c: '\ud800d' }] }
    const copy = structuredClone(value)
    expect(cleanText(value)).toEqual({ a: ['b', 1, null, true, { c: 'd' }] })
    expect(value).toEqual(copy)
  })

  test('a clean value is not copied', () => {
    const value = { a: [{ b: 'c' }], d: 0 }
    expect(cleanText(value)).toBe(value)
  })

  test('if two keys become equal the clean one wins, in any order', () => {
    expect(cleanText({ 'a\0': 1, a: 2 })).toEqual({ a: 2 })
    expect(cleanText({ a: 2, 'a\0': 1 })).toEqual({ a: 2 })
    expect(cleanText({ '\0a': 1, 'a\0': 3 })).toEqual({ a: 1 })
  })

  test('__proto__ stays a field', () => {
    const cleaned: object = cleanText(JSON.parse('{"__proto__":{"admin":"\\u0000yes"},"__proto__\\u0000":1}'))
    expect(Object.getPrototypeOf(cleaned)).toBe(Object.prototype)
    expect(JSON.stringify(cleaned)).toBe('{"__proto__":{"admin":"yes"}}')
    expect('admin' in cleaned).toBe(false)
  })

  test('nesting does not overflow the stack', () => {
    let deep: unknown = 'end\0'
    for (let i = 0; i < 200_000; i++) deep = i % 2 === 0 ? [deep] : { deep }
    let cleaned: unknown = cleanText(deep)
    while (typeof cleaned === 'object' && cleaned !== null) [cleaned] = Object.values(cleaned)
    expect(cleaned).toBe('end')
  })

  test('makes any value storable, and is idempotent', () => {
    fc.assert(
      fc.property(dirty, (value) => {
        const cleaned = cleanText(value)
        const json = JSON.stringify(cleaned)
        expect(json.includes('\\u0000') || /\\ud[89a-f]/.test(json)).toBe(false)
        expect(cleanText(cleaned)).toBe(cleaned)
      }),
    )
  })
})
