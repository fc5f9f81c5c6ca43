import { ROW_STATES, type RowState } from '../../domain/row.ts'
import type { Output } from '../output.ts'
import { blocks } from './bar.ts'
import { formatCount, formatPercent } from '../../util/format.ts'
import { stateStyle, stateWords } from './states.ts'
import { pad } from './text.ts'

/** What is still open comes last, before the sum. */
const ORDER = [...ROW_STATES.filter((state) => state !== 'waiting'), 'waiting'] as const

/** A sum, written as one. States without a row are left out. */
export function rowLines(
  rows: { readonly picked: number } & Readonly<Record<RowState, number>>,
  output: Output,
  total = 'picked',
): string[] {
  const { paint } = output
  if (rows.picked === 0) return [`  ${paint('quiet', 'no rows')}`]
  const states = ORDER.filter((state) => rows[state] > 0)
  const names = Math.max(total.length, ...states.map((state) => state.length)) + 2
  const numbers = formatCount(rows.picked).length
  const barColumns = Math.min(50, output.textColumns - names - numbers - 12)
  return [
    ...states.map((state) => {
      const share = rows[state] / rows.picked
      const name = pad(stateWords(state), names)
      const style = stateStyle(state)
      const bar = barColumns < 8 ? '' : `  ${paint('bar', blocks(share, barColumns))}`
      const shares = paint('quiet', formatPercent(share).padStart(6))
      return `  ${style === null ? name : paint(style, name)}${formatCount(rows[state]).padStart(numbers)}  ${shares}${bar}`
    }),
    `  ${paint('quiet', '─'.repeat(names + numbers))}`,
    `  ${paint('heading', pad(total, names) + formatCount(rows.picked).padStart(numbers))}`,
  ]
}
