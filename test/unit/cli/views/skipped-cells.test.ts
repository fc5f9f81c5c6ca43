import { describe, expect, test } from 'vitest'
import type { SkippedGroup } from '../../../../src/domain/report/run.ts'
import { renderSkippedSection } from '../../../../src/cli/views/skipped-cells.ts'
import { textWidth } from '../../../../src/cli/terminal.ts'
import { describeSkip } from '../../../../src/domain/skipped-cell.ts'
import { onTerminal } from '../terminal.ts'

const group = (changes: Partial<SkippedGroup>): SkippedGroup => ({
  source: 'contacts',
  column: 'phone',
  reason: 'too_long',
  detail: null,
  description: describeSkip({ reason: changes.reason ?? 'too_long', detail: null }),
  rows: 3,
  distinct_values: 1,
  values: [],
  ...changes,
})
const industry = group({
  column: 'industry_id',
  reason: 'unmapped',
  rows: 59,
  distinct_values: 13,
  values: Array.from({ length: 12 }, (_, n) => ({ value: `Industry ${n}`, rows: 12 - n })),
})
const phone = group({
  distinct_values: 3,
  values: [
    { value: '+47 22 00 00 00', rows: 2 },
    { value: '\u001b[2J', rows: 1 },
  ],
})
const textOf = (groups: readonly SkippedGroup[], columns = 80, max = 8): string =>
  renderSkippedSection('Skipped cells', groups, onTerminal(columns).output, max).slice(2).join('\n')

describe('skipped cells', () => {
  test('show column, reason, count and values, whatever their order was', () => {
    expect(textOf([phone, industry])).toBe(
      [
        '  59  industry_id  `map` has no entry for the value',
        '                   Industry 0 (12), Industry 1 (11), Industry 2 (10), Industry 3',
        '                   (9), Industry 4 (8), Industry 5 (7), Industry 6 (6), Industry',
        '                   7 (5), Industry 8 (4), Industry 9 (3), 3 more values',
        '   3  phone        the text is longer than the column allows',
        '                   +47 22 00 00 00 (2), \ufffd[2J, 1 more value',
      ].join('\n'),
    )
  })

  test.each([40, 60, 80, 120])('are wrapped and not cut on %i columns', (columns) => {
    const text = textOf([phone, industry, group({ source: 'accounts', rows: 1 })], columns)
    for (const line of text.split('\n')) expect(textWidth(line)).toBeLessThanOrEqual(columns)
    const words = text.replaceAll(/\s+/g, ' ')
    expect(words).toContain('the text is longer than the column allows')
    expect(words).toContain('contacts.industry_id')
  })

  test('sum up only the rarest reasons, and no single one', () => {
    const many = [5, 40, 2, 30, 1].map((rows, n) => group({ column: `column${n}`, rows }))
    const lines = textOf(many, 80, 2).split('\n')
    expect(lines.map((line) => line.trim())).toEqual([
      '40  column1  the text is longer than the column allows',
      '30  column3  the text is longer than the column allows',
      'and 8 cells for 3 rarer reasons',
    ])
    expect(textOf(many, 80, 4)).not.toContain('rarer')
  })

  test('are no section of a report without any', () => {
    expect(renderSkippedSection('Skipped cells', [], onTerminal(80).output)).toEqual([])
  })
})
