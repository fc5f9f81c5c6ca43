import fc from 'fast-check'
import { expect, test } from 'vitest'
import { keyLiteral, toLiteral } from '../../../src/init/literals.ts'

/** Evaluates the literal. */
const read = (literal: string): unknown => new Function(`return (${literal})`)() as unknown

/** Texts with quotes, backslashes, placeholders and several lines. */
const expressions = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(fc.constantFrom("'", '"', '`', '\\', '${', '$value', '\n', '\r', 't.email', '\u2028', 'é', ' '), {
      maxLength: 12,
    })
    .map((parts) => parts.join('')),
)

test('any text survives a round trip', () => {
  fc.assert(
    fc.property(expressions, (text) => {
      expect(read(toLiteral(text))).toBe(text)
    }),
    { numRuns: 2_000 },
  )
})

test('so do names and objects', () => {
  fc.assert(
    fc.property(fc.dictionary(expressions, expressions), (object) => {
      expect(Object.entries(read(toLiteral(object, false)) as object)).toEqual(Object.entries(object))
    }),
  )
})

test('picks the quotes that need no escape', () => {
  expect(toLiteral('t.email')).toBe("'t.email'")
  expect(toLiteral("concat_ws(' ', t.a)")).toBe(`"concat_ws(' ', t.a)"`)
  expect(toLiteral(`concat_ws(' ', t."A")`)).toBe('`concat_ws(\' \', t."A")`')
  expect(toLiteral(String.raw`'^\+(1|7)'`)).toBe("`'^\\\\+(1|7)'`")
  expect(keyLiteral('title')).toBe('title')
  expect(keyLiteral('attributes.title')).toBe("'attributes.title'")
})

test('SQL stands on several lines, a label does not', () => {
  expect(toLiteral('(select a\nfrom b)')).toBe('`(select a\nfrom b)`')
  expect(toLiteral({ map: { a: 'one\ntwo' } })).toBe(String.raw`{ map: { a: "one\ntwo" } }`)
})
