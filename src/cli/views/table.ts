import { padText, textWidth, truncate, wrapText, type Output, type TextStyle } from '../terminal.ts'
import { sanitize, formatCount } from '../../util/text.ts'
import { renderSection } from './layout.ts'

interface TableColumn<Row> {
  readonly title: string
  readonly text: (row: Row) => string
  /** Aligned right. */
  readonly number?: boolean
  /** On a narrow terminal the column is cut to no less than this. The widest column is cut first. */
  readonly minColumns?: number
  /** Left out where the table does not fit the terminal otherwise: the lowest number first. */
  readonly dropOrder?: number
  /** The last column only: a text that does not fit is wrapped and not cut. */
  readonly wraps?: boolean
  readonly style?: (row: Row) => TextStyle | null
  /** Left out where all rows have the same text. */
  readonly ifDifferent?: boolean
}

/** Columns of rows that name their source and key. */
export const SOURCE_COLUMN = { title: 'source', text: (row: { source: string }) => row.source, minColumns: 6 }
const KEY_COLUMN = { title: 'key', text: (row: { key: string }) => row.key, minColumns: 8 }

const COLUMN_GAP = 2

/**
 * Renders rows as aligned columns under a head; nothing without rows. A column without any text is left out. Columns with
 * `minColumns` are cut to fit the terminal; without a terminal nothing is cut. (cli-table3 cannot shrink columns.)
 * @param options.max the rows after these are summed up in a line by `describeRest`
 */
export function renderTable<Row>(
  output: Pick<Output, 'columns' | 'paint'>,
  given: readonly Row[],
  columns: readonly TableColumn<Row>[],
  {
    max = given.length,
    describeRest = () => '',
    indent = 0,
  }: {
    readonly max?: number
    readonly describeRest?: (rest: readonly Row[]) => string
    readonly indent?: number
  } = {},
): string[] {
  if (given.length === 0) return []
  const rows = given.slice(0, max)
  const rest = given.slice(rows.length)
  const room = (output.columns ?? Number.POSITIVE_INFINITY) - indent
  const hasText = ({ text, ifDifferent }: TableColumn<Row>): boolean =>
    ifDifferent === true ? new Set(given.map(text)).size > 1 : rows.some((row) => text(row) !== '')
  const shown = dropColumns(
    columns.filter(hasText).map((column) => measureColumn(column, rows)),
    room,
  )
  const widths = fitColumns(shown, room)
  const line = (texts: readonly string[], styleOf: (n: number) => TextStyle | null): string =>
    shown
      .map(({ wraps, number }, n) => {
        const [text = '', width = 0, style] = [texts[n], widths[n], styleOf(n)]
        const short = wraps === true ? text : truncate(text, width)
        const painted = style === null ? short : output.paint(style, short)
        return padText(painted, width, number === true ? 'right' : 'left')
      })
      .join(' '.repeat(COLUMN_GAP))
      .trimEnd()
  const beforeLast = ' '.repeat(widths.slice(0, -1).reduce((sum, width) => sum + width + COLUMN_GAP, 0))
  const lines = [
    line(
      shown.map((column) => column.title),
      () => 'quiet',
    ),
    ...rows.flatMap((row, r) => {
      const texts = shown.map((column) => column.texts[r] ?? '')
      const last = texts.pop() ?? ''
      const [first = '', ...more] = shown.at(-1)?.wraps === true ? wrapText(last, widths.at(-1) ?? 0) : [last]
      const styleOf = (n: number): TextStyle | null => shown[n]?.style?.(row) ?? null
      return [line([...texts, first], styleOf), ...more.map((text) => beforeLast + text)]
    }),
    ...(rest.length === 0 ? [] : [output.paint('quiet', describeRest(rest))]),
  ]
  return lines.map((text) => ' '.repeat(indent) + text)
}

/** A column with the texts of its cells, their width, and the least width that it can be cut to. */
interface MeasuredColumn<Row> extends TableColumn<Row> {
  readonly texts: readonly string[]
  readonly width: number
  readonly leastWidth: number
}

function measureColumn<Row>(column: TableColumn<Row>, rows: readonly Row[]): MeasuredColumn<Row> {
  const texts = rows.map((row) => sanitize(column.text(row)))
  const width = Math.max(...[column.title, ...texts].map(textWidth))
  return { ...column, texts, width, leastWidth: Math.min(width, column.minColumns ?? width) }
}

const totalWidth = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, COLUMN_GAP * (widths.length - 1))

/** Leaves out columns until the others fit, as far as they have a `dropOrder`. */
function dropColumns<Row>(all: readonly MeasuredColumn<Row>[], room: number): readonly MeasuredColumn<Row>[] {
  if (totalWidth(all.map((column) => column.leastWidth)) <= room) return all
  const first = Math.min(...all.map((column) => column.dropOrder ?? Number.POSITIVE_INFINITY))
  if (!Number.isFinite(first)) return all
  return dropColumns(
    all.filter((column) => column.dropOrder !== first),
    room,
  )
}

/** Narrows the widest column that can be cut, until all fit. */
function fitColumns(columns: readonly MeasuredColumn<never>[], room: number): number[] {
  const widths = columns.map((column) => column.width)
  for (let over = totalWidth(widths) - room; over > 0; over--) {
    const cuttable = columns.map(({ leastWidth }, n) =>
      (widths[n] ?? 0) > leastWidth ? (widths[n] ?? 0) : 0,
    )
    const widest = Math.max(...cuttable)
    if (widest === 0) break
    widths[cuttable.indexOf(widest)] = widest - 1
  }
  return widths
}

/** Rows listed in a section; `--json` has all. */
const MAX_LISTED_ROWS = 20

/** A section of rows by source and key. Empty without rows. */
export function renderKeyedRows<Row extends { readonly source: string; readonly key: string }>(
  output: Output,
  title: string,
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[] = [],
  restIn = '--json has them',
): string[] {
  const lines = renderTable(output, rows, [SOURCE_COLUMN, KEY_COLUMN, ...columns], {
    max: MAX_LISTED_ROWS,
    describeRest: (rest) => `and ${formatCount(rest.length)} more; ${restIn}`,
  })
  return renderSection(output, title, lines)
}

/** A table of the cells of groups, such as rows, with the title of each group above its cells. */
export function renderCellGroups<Group extends { readonly cells: readonly unknown[] }>(
  output: Output,
  groups: readonly Group[],
  renderTitle: (group: Group) => readonly string[],
  columns: readonly TableColumn<Group['cells'][number]>[],
): string[] {
  const cells = groups.flatMap((group) => group.cells)
  const [head, ...body] = renderTable(output, cells, columns, { indent: 4 })
  if (head === undefined) return []
  return [head, ...groups.flatMap((group) => [...renderTitle(group), ...body.splice(0, group.cells.length)])]
}
