import type { Output } from '../output.ts'
import type { Style } from './paint.ts'
import { clean, cut, pad, width } from './text.ts'

export interface Column<Row> {
  readonly title: string
  readonly text: (row: Row) => string
  /** Numbers stand on the right. */
  readonly number?: boolean
  /** May be cut, down to this many columns, where the terminal is too narrow. The widest gives way first. */
  readonly least?: number
  readonly style?: (row: Row) => Style | null
}

const GAP = 2

/**
 * Rows as aligned columns under a head; a column without any text is left out. Fits the terminal: what may be cut ends
 * in an ellipsis. Where there is no terminal nothing is cut.
 */
export function table<Row>(
  rows: readonly Row[],
  all: readonly Column<Row>[],
  output: Pick<Output, 'columns' | 'paint'>,
): string[] {
  const columns = all.filter((column) => rows.some((row) => column.text(row) !== ''))
  const cells = rows.map((row) => columns.map((column) => clean(column.text(row))))
  const widths = fit(
    columns.map((column, n) => Math.max(width(column.title), ...cells.map((row) => width(row[n] ?? '')))),
    columns,
    output.columns,
  )
  const line = (texts: readonly string[], style: (n: number) => Style | null): string =>
    texts
      .map((text, n) => {
        const space = widths[n] ?? 0
        const short = cut(text, space)
        const isLast = n === texts.length - 1
        // Nothing stands to the right of the last column, so only its numbers are filled up.
        const padded =
          columns[n]?.number === true ? pad(short, space, 'right') : isLast ? short : pad(short, space)
        const painted = style(n)
        return painted === null ? padded : output.paint(painted, padded)
      })
      .join(' '.repeat(GAP))
      .trimEnd()
  return [
    line(
      columns.map((column) => column.title),
      () => 'quiet',
    ),
    ...rows.map((row, n) => line(cells[n] ?? [], (at) => columns[at]?.style?.(row) ?? null)),
  ]
}

/** Takes from the widest column that may be cut, until all fit or none can give any more. */
function fit(wanted: readonly number[], columns: readonly Column<never>[], edge: number | null): number[] {
  const widths = [...wanted]
  if (edge === null) return widths
  let over = widths.reduce((sum, one) => sum + one, GAP * (widths.length - 1)) - edge
  while (over > 0) {
    let widest = -1
    for (const [n, column] of columns.entries()) {
      const least = Math.max(column.least ?? Number.POSITIVE_INFINITY, 1)
      if ((widths[n] ?? 0) > least && (widest < 0 || (widths[n] ?? 0) > (widths[widest] ?? 0))) widest = n
    }
    if (widest < 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
    over--
  }
  return widths
}
