import { describe, expect, test } from 'vitest'
import { codeFrame } from '../../../src/config/location.ts'

describe('a position in a text', () => {
  test('is a line and a column, and a caret under it', () => {
    const text = '{\r\n\t"a": 1\r\n  "b": 2\n}'
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
