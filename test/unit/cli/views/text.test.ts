import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createPaint, textWidth, truncate } from '../../../../src/cli/terminal.ts'
import { sanitize } from '../../../../src/util/text.ts'
import { unstyled } from '../terminal.ts'

const paint = createPaint(true)

const strings = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('山田太郎', '👩‍👩‍👧 and more', 'Mu\u0308ller'),
)

describe('truncation', () => {
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

test('text from a database can neither move the cursor nor change the writing direction', () => {
  expect(sanitize('a\u001b[2Jb')).toBe('a\ufffd[2Jb')
  expect(sanitize('a\tb\r\nc')).toBe('a b c')
  expect(sanitize('a\u202eb\u0000')).toBe('a\ufffdb\ufffd')
  expect(sanitize('Ærlig 山田 👩‍👩‍👧')).toBe('Ærlig 山田 👩‍👩‍👧')
})
