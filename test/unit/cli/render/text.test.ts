import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { painter } from '../../../../src/cli/render/paint.ts'
import { clean, cut, pad, width, wrap } from '../../../../src/cli/render/text.ts'
import { unstyled } from '../terminal.ts'

const paint = painter(true)

describe('the width on a terminal', () => {
  test.each([
    ['', 0],
    ['abc', 3],
    ['Müller', 6],
    ['Mu\u0308ller', 6],
    ['山田太郎', 8],
    ['カタカナ', 8],
    ['ｶﾅ', 2],
    ['김철수', 6],
    ['ＡＢ', 4],
    ['👍', 2],
    ['👩‍👩‍👧', 2],
    ['🇳🇴', 2],
    ['…─█▏', 4],
    ['a\u200bb', 2],
    ['Ångström', 8],
  ])('%s', (text, columns) => {
    expect(width(text)).toBe(columns)
  })

  test('colours take none', () => {
    expect(width(paint('bad', 'abc') + paint('heading', '山'))).toBe(5)
  })
})

const strings = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('山田太郎', '👩‍👩‍👧 and more', 'Mu\u0308ller'),
)

describe('cutting', () => {
  test('keeps what fits, and marks what was cut', () => {
    expect(cut('abcdef', 6)).toBe('abcdef')
    expect(cut('abcdef', 5)).toBe('abcd…')
    expect(cut('山田太郎', 6)).toBe('山田…')
    expect(cut('山田太郎', 5)).toBe('山田…')
    expect(cut('abc', 1)).toBe('…')
    expect(cut('abc', 0)).toBe('')
  })

  test('never wider than it may be', () => {
    fc.assert(
      fc.property(strings, fc.nat(12), (text, columns) => {
        expect(width(cut(text, columns))).toBeLessThanOrEqual(columns)
      }),
    )
  })

  test('colours are kept and end, and it is cut where it would be without them', () => {
    const styled = `${paint('bad', 'abc')}${paint('good', 'def')}`
    const short = cut(styled, 4)
    expect(unstyled(short)).toBe('abc…')
    // oxlint-disable-next-line no-control-regex
    expect(short).toMatch(/\u001b\[39m$/)
  })
})

test('padding fills up to the column, on either side', () => {
  expect(pad('山', 4)).toBe('山  ')
  expect(pad('12', 4, 'right')).toBe('  12')
  expect(pad('too long', 3)).toBe('too long')
})

describe('wrapping', () => {
  test('breaks between words', () => {
    expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
    expect(wrap('averylongword it is', 6)).toEqual(['averylongword', 'it is'])
    expect(wrap('one\ntwo', 80)).toEqual(['one', 'two'])
    expect(wrap('', 80)).toEqual([''])
  })

  test('loses nothing', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z ]*$/), fc.integer({ min: 1, max: 20 }), (text, columns) => {
        expect(wrap(text, columns).join(' ')).toBe(text)
      }),
    )
  })
})

test('what comes from a database can neither move the cursor nor turn the writing round', () => {
  expect(clean('a\u001b[2Jb')).toBe('a\ufffd[2Jb')
  expect(clean('a\tb\r\nc')).toBe('a b c')
  expect(clean('a\u202eb\u0000')).toBe('a\ufffdb\ufffd')
  expect(clean('Ærlig 山田 👩‍👩‍👧')).toBe('Ærlig 山田 👩‍👩‍👧')
})
