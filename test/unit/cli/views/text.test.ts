import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createPaint, padText, textWidth, truncate, wrapText } from '../../../../src/cli/terminal.ts'
import { sanitize } from '../../../../src/util/text.ts'
import { unstyled } from '../terminal.ts'

const paint = createPaint(true)

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
    expect(textWidth(text)).toBe(columns)
  })

  test('colours take no columns', () => {
    expect(textWidth(paint('bad', 'abc') + paint('heading', '山'))).toBe(5)
  })
})

const strings = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('山田太郎', '👩‍👩‍👧 and more', 'Mu\u0308ller'),
)

describe('truncation', () => {
  test('keeps what fits, and ends in an ellipsis', () => {
    expect(truncate('abcdef', 6)).toBe('abcdef')
    expect(truncate('abcdef', 5)).toBe('abcd…')
    expect(truncate('山田太郎', 6)).toBe('山田…')
    expect(truncate('山田太郎', 5)).toBe('山田…')
    expect(truncate('abc', 1)).toBe('…')
    expect(truncate('abc', 0)).toBe('')
  })

  test('is never too wide', () => {
    fc.assert(
      fc.property(strings, fc.nat(12), (text, columns) => {
        expect(textWidth(truncate(text, columns))).toBeLessThanOrEqual(columns)
      }),
    )
  })

  test('closes colours, and cuts at the same place as without them', () => {
    const styled = `${paint('bad', 'abc')}${paint('good', 'def')}`
    const short = truncate(styled, 4)
    expect(unstyled(short)).toBe('abc…')
    // oxlint-disable-next-line no-control-regex
    expect(short).toMatch(/\u001b\[39m$/)
  })
})

test('padding fills up on either side', () => {
  expect(padText('山', 4)).toBe('山  ')
  expect(padText('12', 4, 'right')).toBe('  12')
  expect(padText('too long', 3)).toBe('too long')
})

describe('wrapping', () => {
  const WORDS = /[a-z]+/g

  test('breaks between words', () => {
    expect(wrapText('one two three', 7)).toEqual(['one two', 'three'])
    expect(wrapText('averylongword it is', 6)).toEqual(['averylongword', 'it is'])
    expect(wrapText('one\ntwo', 80)).toEqual(['one', 'two'])
    expect(wrapText('', 80)).toEqual([''])
  })

  test('loses no word', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z ]*$/), fc.integer({ min: 1, max: 20 }), (text, columns) => {
        expect(wrapText(text, columns).join(' ').match(WORDS)).toEqual(text.match(WORDS))
      }),
    )
  })
})

test('text from a database can neither move the cursor nor change the writing direction', () => {
  expect(sanitize('a\u001b[2Jb')).toBe('a\ufffd[2Jb')
  expect(sanitize('a\tb\r\nc')).toBe('a b c')
  expect(sanitize('a\u202eb\u0000')).toBe('a\ufffdb\ufffd')
  expect(sanitize('Ærlig 山田 👩‍👩‍👧')).toBe('Ærlig 山田 👩‍👩‍👧')
})
