import { isMet, type Measured, type Promised } from './promised.ts'

export interface Line {
  readonly name: string
  readonly promised: Promised
  readonly measured: Measured
  /** More columns before the numbers. */
  readonly more?: readonly string[]
}

/** A Markdown table: utilisation of the whole run and at steady state, and 429s. */
export function rateTable(first: string, lines: readonly Line[], more: readonly string[] = []): string {
  const head = [first, ...more, 'whole run', 'steady state', 'promised', '429s', 'calls', '']
  const rows = lines.map(({ name, promised, measured, more: cells = [] }) => [
    name,
    ...cells,
    share(measured.whole),
    share(measured.steady),
    figures(promised),
    count(measured.refused),
    count(measured.calls),
    isMet(promised, measured) ? '' : '**missed**',
  ])
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, n) => (n === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

function figures({ steady, whole, refused, inTenSeconds }: Promised): string {
  return [
    ...(steady === null ? [] : [`${percent(steady)} steady`]),
    ...(whole === null ? [] : [`${percent(whole)} whole`]),
    refused === 0 ? 'no 429' : `429s ≤ ${percent(refused)}`,
    ...(inTenSeconds === undefined ? [] : [`≤ ${inTenSeconds} in 10 s`]),
  ].join(', ')
}

const percent = (of: number): string => `${Math.round(of * 100)}%`
const share = (of: number): string => (Number.isNaN(of) ? '–' : `${(of * 100).toFixed(1)}%`)
const count = (number: number): string => number.toLocaleString('en')
