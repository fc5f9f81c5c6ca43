import {
  type Output,
  type Paint,
  type TextStyle,
  padText,
  textWidth,
  truncate,
  wrapText,
} from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import { formatCount } from '../../util/format.ts'
import { FAILED_ROW_STATES, type RowState } from '../../domain/row.ts'

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
 * Renders rows as aligned columns under a head; nothing without rows. A column without any text is left out. Columns with `minColumns` are cut to
 * fit the terminal; without a terminal nothing is cut. (cli-table3 cannot shrink columns.)
 * @param options.max the rows after these are summed up in a line by `describeRest`
 */
export function renderTable<Row>(
  output: Pick<Output, 'columns' | 'paint'>,
  given: readonly Row[],
  all: readonly TableColumn<Row>[],
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
  const room = output.columns === null ? null : output.columns - indent
  const columns = dropColumns(
    all.filter(({ text, ifDifferent }) =>
      ifDifferent === true ? new Set(given.map(text)).size > 1 : rows.some((row) => text(row) !== ''),
    ),
    rows,
    room,
  )
  const cells = rows.map((row) => columns.map((column) => sanitize(column.text(row))))
  const widths = fitColumns(
    columns.map((column, n) =>
      Math.max(textWidth(column.title), ...cells.map((row) => textWidth(row[n] ?? ''))),
    ),
    columns,
    room,
  )
  const line = (texts: readonly string[], style: (n: number) => TextStyle | null): string =>
    texts
      .map((text, n) => {
        const space = widths[n] ?? 0
        const short = columns[n]?.wraps === true ? text : truncate(text, space)
        const isLast = n === texts.length - 1
        // The last column needs no padding, unless it is aligned right.
        const padded =
          columns[n]?.number === true
            ? padText(short, space, 'right')
            : isLast
              ? short
              : padText(short, space)
        const painted = style(n)
        return painted === null ? padded : output.paint(painted, padded)
      })
      .join(' '.repeat(COLUMN_GAP))
      .trimEnd()
  const lines = [
    line(
      columns.map((column) => column.title),
      () => 'quiet',
    ),
    ...rows.flatMap((row, n) => {
      const texts = cells[n] ?? []
      const style = (at: number) => columns[at]?.style?.(row) ?? null
      const last = columns.length - 1
      const width = widths[last] ?? 0
      if (columns[last]?.wraps !== true) return [line(texts, style)]
      const [first = '', ...more] = wrapText(texts[last] ?? '', width)
      const before = ' '.repeat(widths.slice(0, -1).reduce((sum, one) => sum + one + COLUMN_GAP, 0))
      return [line([...texts.slice(0, -1), first], style), ...more.map((text) => before + text)]
    }),
    ...(rest.length === 0 ? [] : [output.paint('quiet', describeRest(rest))]),
  ]
  return lines.map((text) => ' '.repeat(indent) + text)
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
  const [head, ...body] = renderTable(output, cells, columns, { indent: 2 * INDENT })
  if (head === undefined) return []
  return [head, ...groups.flatMap((group) => [...renderTitle(group), ...body.splice(0, group.cells.length)])]
}

/** Leaves out columns until the others fit, as far as they have a `dropOrder`. */
function dropColumns<Row>(
  all: readonly TableColumn<Row>[],
  rows: readonly Row[],
  room: number | null,
): readonly TableColumn<Row>[] {
  if (room === null) return all
  let columns = all
  const least = (column: TableColumn<Row>): number => {
    const width = Math.max(
      textWidth(column.title),
      ...rows.map((row) => textWidth(sanitize(column.text(row)))),
    )
    return Math.min(width, column.minColumns ?? width)
  }
  while (columns.reduce((sum, column) => sum + least(column), COLUMN_GAP * (columns.length - 1)) > room) {
    const first = Math.min(...columns.map((column) => column.dropOrder ?? Number.POSITIVE_INFINITY))
    if (!Number.isFinite(first)) break
    columns = columns.filter((column) => column.dropOrder !== first)
  }
  return columns
}

/** Narrows the widest column that can be cut, until all fit. */
function fitColumns(
  wanted: readonly number[],
  columns: readonly TableColumn<never>[],
  room: number | null,
): number[] {
  const widths = [...wanted]
  if (room === null) return widths
  let over = widths.reduce((sum, one) => sum + one, COLUMN_GAP * (widths.length - 1)) - room
  while (over > 0) {
    let widest = -1
    for (const [n, column] of columns.entries()) {
      const min = Math.max(column.minColumns ?? Number.POSITIVE_INFINITY, 1)
      if ((widths[n] ?? 0) > min && (widest < 0 || (widths[n] ?? 0) > (widths[widest] ?? 0))) widest = n
    }
    if (widest < 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
    over--
  }
  return widths
}

/** The entries of a list that apply; a condition that does not hold leaves false, a text that is not there null. */
export const compact = <Entry>(entries: readonly (Entry | false | null)[]): Entry[] =>
  entries.flatMap((entry) => (entry === false || entry === null ? [] : [entry]))

/** Running text, indented by two columns. */
export const renderText = (
  { paint, textColumns }: Output,
  text: string,
  style: TextStyle | null = null,
): string[] =>
  wrapText(text, textColumns - INDENT).map((line) => `  ${style === null ? line : paint(style, line)}`)

/** Lines beside what begins the first of them. */
export function placeBeside(start: string, lines: readonly string[]): string[] {
  const indent = ' '.repeat(textWidth(start))
  return lines.map((line, n) => (n === 0 ? start : indent) + line)
}

/** A heading and the lines below it, after a blank line; empty without lines. */
export const renderSection = (
  { paint }: Pick<Output, 'paint'>,
  title: string,
  lines: readonly string[],
): string[] => (lines.length === 0 ? [] : ['', paint('heading', title), ...lines])

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const

/** A share (0 to 1) as blocks, exact to an eighth of a column. Any share above 0 is visible. */
export function renderBlocks(share: number, columns: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * columns * 8)
  const shown = share > 0 ? Math.max(1, eighths) : 0
  return '█'.repeat(Math.floor(shown / 8)) + (EIGHTHS[shown % 8] ?? '')
}

/** A bar for a share (0 to 1). It is full only if the share is 1. */
export function renderBar(share: number, columns: number, paint: Paint): string {
  const most = share < 1 ? columns - 1 / 8 : columns
  const filled = renderBlocks(Math.min(share, most / columns), columns)
  return paint('bar', filled) + paint('quiet', '░'.repeat(columns - filled.length))
}

/** Numbers with labels, one per line, and their sum. Zeros are left out. */
export function renderCounts(
  { paint, textColumns }: Output,
  [sum, total]: readonly [n: number, words: string],
  list: readonly (readonly [n: number, words: string])[],
): string[] {
  const columns = formatCount(sum).length
  const lines = list
    .filter(([n]) => n > 0)
    .flatMap(([n, words]) =>
      placeBeside(`  ${formatCount(n).padStart(columns)}  `, wrapText(words, textColumns - columns - 4)),
    )
  return [
    ...lines,
    `  ${paint('quiet', '─'.repeat(columns))}`,
    `  ${paint('heading', `${formatCount(sum)}  ${total}`)}`,
  ]
}

/** A label, a text, and details that are printed in parentheses if they fit on the line; false or null: nothing. */
export type Field = readonly [label: string, text: string, more?: string] | false | null

const INDENT = 2
const LABEL_GAP = 3

/** With less room than this, a text stands below its label. */
const MIN_FIELD_COLUMNS = 22

/** Labels with wrapped texts beside them. */
export function renderFields({ paint, textColumns }: Output, fields: readonly Field[]): string[] {
  const list = compact(fields)
  const labels = Math.max(...list.map(([label]) => textWidth(label)))
  const beside = textColumns - INDENT - labels - LABEL_GAP
  const isNarrow = beside < MIN_FIELD_COLUMNS
  const room = isNarrow ? textColumns - 2 * INDENT : beside
  return list.flatMap(([label, text, more = '']) => {
    const joined = more === '' ? text : `${text} (${more})`
    const lines =
      textWidth(joined) <= room || more === ''
        ? wrapText(joined, room)
        : [...wrapText(text, room), ...wrapText(more, room)]
    if (isNarrow) return [`  ${paint('quiet', label)}`, ...lines.map((line) => ' '.repeat(2 * INDENT) + line)]
    const start = `  ${paint('quiet', padText(label, labels))}${' '.repeat(LABEL_GAP)}`
    return placeBeside(start, lines).map((line) => line.trimEnd())
  })
}

/** A command to run next, and its purpose; false or null: none. */
export type Suggestion = Terms[number] | false | null

/** The suggested commands under a heading. Empty without any. */
export const renderSuggestions = (output: Output, suggestions: readonly Suggestion[]): string[] =>
  renderSection(output, 'Next', renderCommands(output, compact(suggestions)))

/** Commands with their purposes beside them. */
export const renderCommands = (output: Output, commands: Terms): string[] =>
  renderTerms(output, commands, { style: 'type', gap: 3 })

/** Terms with their meanings; of an empty meaning, only the term is shown. */
export type Terms = readonly (readonly [term: string, meaning: string])[]

export interface TermLayout {
  readonly style?: TextStyle
  readonly gap?: number
  /** The minimum width of the terms. */
  readonly minColumns?: number
  /** A longer term gets a line of its own, so that it does not push all meanings to the right. */
  readonly maxColumns?: number
  /** With less room than this, meanings stand below their terms. */
  readonly minRoom?: number
}

/** Terms with their wrapped meanings beside them. */
export function renderTerms(
  { paint, textColumns }: Pick<Output, 'paint' | 'textColumns'>,
  terms: Terms,
  { style, gap = 2, minColumns = 0, maxColumns = Number.POSITIVE_INFINITY, minRoom = 20 }: TermLayout,
): string[] {
  const widths = terms.map(([term]) => textWidth(term)).filter((width) => width <= maxColumns)
  const hasMeanings = terms.some(([, meaning]) => meaning !== '')
  const termColumns = hasMeanings ? Math.max(minColumns, ...widths) : 0
  const isStacked = textColumns - INDENT - termColumns - gap < minRoom
  const indent = isStacked ? 3 * INDENT : INDENT + termColumns + gap
  return terms.flatMap(([term, meaning]) => {
    const shown = ' '.repeat(INDENT) + (style === undefined ? term : paint(style, term))
    if (meaning === '') return [shown]
    const lines = wrapText(meaning, textColumns - indent)
    return isStacked || textWidth(term) > termColumns
      ? [shown, ...lines.map((line) => ' '.repeat(indent) + line)]
      : placeBeside(padText(shown, indent), lines)
  })
}

/** Numbers with labels on one line: `3 found, 1 failed`. Zeros are left out. */
export function formatCounts<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  words: Partial<Record<NoInfer<Name>, string>>,
  between = ', ',
): string {
  return (Object.entries(words) as [Name, string][])
    .filter(([name]) => numbers[name] > 0)
    .map(([name, word]) => `${formatCount(numbers[name])} ${word}`)
    .join(between)
}

/** The sum of numbers and its parts: `31 = 28 completed + 3 failed`. Null if it is 0. */
export function formatSum<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  words: Partial<Record<NoInfer<Name>, string>>,
): string | null {
  const sum = (Object.keys(words) as Name[]).reduce((all, name) => all + numbers[name], 0)
  return sum === 0 ? null : `${formatCount(sum)} = ${formatCounts(numbers, words, ' + ')}`
}

const NONE = '—'

/**
 * Formats a value of a column or record on one line: a text as it is, quoted if it is blank or has blanks around it; anything
 * else as JSON.
 */
export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return NONE
  const isPlain = typeof value === 'string' && value !== '' && value === value.trim() && value !== NONE
  return sanitize(isPlain ? value : JSON.stringify(value))
}

export function stateStyle(state: RowState): TextStyle | null {
  if (state === 'enriched') return 'good'
  if (state === 'waiting') return 'warn'
  return (FAILED_ROW_STATES as readonly RowState[]).includes(state) ? 'bad' : null
}
