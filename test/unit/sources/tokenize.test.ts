import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { tokenize } from '../../../src/sources/expression.ts'

const kinds = (text: string): string[] =>
  tokenize(text)
    .tokens.filter((token) => token.kind !== 'space')
    .map((token) => `${token.kind} ${token.text}`)

describe('tokenize', () => {
  test.each<[string, string[]]>([
    [`t.email || 'a''b'`, ['word t', 'symbol .', 'word email', 'symbol |', 'symbol |', `string 'a''b'`]],
    [String.raw`E'it\'s' x`, [String.raw`string E'it\'s'`, 'word x']],
    [String.raw`'\' x`, [String.raw`string '\'`, 'word x']],
    [`U&"d\\0061t" "a""b"`, [`quoted U&"d\\0061t"`, 'quoted "a""b"']],
    ['$$a$b$$ $x$ $$ $x$', ['string $$a$b$$', 'string $x$ $$ $x$']],
    ['$value $value$ x $value$', ['placeholder $value', 'string $value$ x $value$']],
    ['a$value', ['word a$value']],
    ['$1', ['placeholder $1']],
    ['1 -- $value\n2', ['number 1', 'comment -- $value', 'number 2']],
    ['1/* a /* b */ $c */2', ['number 1', 'comment /* a /* b */ $c */', 'number 2']],
    ['1.5e-3 .5 1_000', ['number 1.5e-3', 'number .5', 'number 1_000']],
    ['"Ærø".ñ', ['quoted "Ærø"', 'symbol .', 'word ñ']],
    ["name'x'", ['word name', "string 'x'"]],
  ])('%s', (text, expected) => {
    expect(kinds(text)).toEqual(expected)
    expect(tokenize(text).unfinished).toBeNull()
  })

  test.each<[string, number]>([
    [`a 'b`, 2],
    [`a E'b\\'`, 2],
    ['a "b', 2],
    ['a /* b /* */', 2],
    ['a $x$ b $y$', 2],
    ['$$', 0],
    [`U&'x`, 0],
  ])('finds the start of the unfinished part of %s', (text, at) => {
    expect(tokenize(text).unfinished?.start).toBe(at)
  })

  const piece = fc.oneof(
    fc.constantFrom(
      '$value',
      "'",
      "''",
      '"',
      '$$',
      '$a$',
      '--',
      '/*',
      '*/',
      '\n',
      '\\',
      ' ',
      'e',
      'U&',
      '(',
      '::',
      'ø',
    ),
    fc.string({ maxLength: 3, unit: 'binary' }),
  )
  test('tokens joined give the text, each at its place', () => {
    fc.assert(
      fc.property(
        fc.array(piece).map((pieces) => pieces.join('')),
        (text) => {
          const { tokens, unfinished } = tokenize(text)
          const all = unfinished ? [...tokens, unfinished] : tokens
          expect(all.map((token) => token.text).join('')).toBe(text)
          for (const token of all) expect(text.startsWith(token.text, token.start)).toBe(true)
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
