import { isMet, type Measured, type RateTarget } from './targets.ts'

export interface Line {
  readonly name: string
  readonly target: RateTarget
  readonly measured: Measured
  /** Further columns before the numbers. */
  readonly more?: readonly string[]
}

/** A Markdown table: utilisation of the whole run and at steady state, and 429s. */
export function rateTable(first: string, lines: readonly Line[], more: readonly string[] = []): string {
  const head = [first, ...more, 'whole run', 'steady state', 'target', '429s', 'calls', '']
  const rows = lines.map(({ name, target, measured, more: cells = [] }) => [
    name,
    ...cells,
    share(measured.whole),
    share(measured.steady),
    figures(target),
    count(measured.rejected),
    count(measured.calls),
    isMet(target, measured) ? '' : '**missed**',
  ])
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, n) => (n === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

function figures({ steady, whole, rejected, inTenSeconds }: RateTarget): string {
  return [
    ...(steady === null ? [] : [`${percent(steady)} steady`]),
    ...(whole === null ? [] : [`${percent(whole)} whole`]),
    rejected === 0 ? 'no 429' : `429s ≤ ${percent(rejected)}`,
    ...(inTenSeconds === undefined ? [] : [`≤ ${inTenSeconds} in 10 s`]),
  ].join(', ')
}

const percent = (of: number): string => `${Math.round(of * 100)}%`
const share = (of: number): string => (Number.isNaN(of) ? '–' : `${(of * 100).toFixed(1)}%`)
const count = (number: number): string => number.toLocaleString('en')
