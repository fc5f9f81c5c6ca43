import fc from 'fast-check'
import { expect, test } from 'vitest'
import { renderTable } from '../../../../src/cli/views/table.ts'
import { textWidth } from '../../../../src/cli/terminal.ts'
import { onTerminal } from '../terminal.ts'

interface Row {
  readonly key: string
  readonly rows: number
  readonly reason: string
}
const columns = [
  { title: 'key', text: (row: Row) => row.key, minColumns: 4 },
  { title: 'rows', text: (row: Row) => String(row.rows), number: true },
  { title: 'reason', text: (row: Row) => row.reason, minColumns: 6, style: () => 'bad' as const },
]
const row = (key: string, rows: number, reason: string): Row => ({ key, rows, reason })

test('columns are aligned: text on the left, numbers on the right', () => {
  const { output } = onTerminal(80)
  expect(renderTable(output, [row('a', 5, 'short'), row('longer', 1_200, 'no')], columns)).toEqual([
    'key     rows  reason',
    'a          5  short',
    'longer  1200  no',
  ])
})

test('on a narrow terminal the widest column is cut first, down to its minimum', () => {
  const rows = [row('a-key-of-some-length', 5, 'a reason that goes on and on, and on')]
  expect(renderTable(onTerminal(44).output, rows, columns)[1]).toBe(
    'a-key-of-some-len…     5  a reason that goe…',
  )
  expect(renderTable(onTerminal(20).output, rows, columns)[1]).toBe('a-key…     5  a rea…')
})

test('no line is wider than the terminal', () => {
  const rows = fc.record({
    key: fc.string({ unit: 'grapheme' }),
    rows: fc.nat(9_999),
    reason: fc.string({ unit: 'grapheme' }),
  })
  fc.assert(
    fc.property(
      fc.array(rows, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 24, max: 120 }),
      (list, edge) => {
        for (const line of renderTable(onTerminal(edge).output, list, columns)) {
          expect(textWidth(line)).toBeLessThanOrEqual(edge)
          expect(line).not.toMatch(/\n/)
        }
      },
    ),
  )
})
