import { FAILURE_ADVICE } from '../../actions/retry.ts'
import type { FailedRow, FailureReason, SkippedCells } from '../../store/failures.ts'
import type { Output } from '../terminal.ts'
import { formatState, renderFields, renderTable, stateStyle } from './layout.ts'
import { formatCount, pluralize, relativeTime } from '../../util/format.ts'

export interface FailureOverview {
  readonly total: number
  readonly reasons: readonly FailureReason[]
  /** Of rows in any state, also of those that were enriched. */
  readonly cells: readonly SkippedCells[]
  /** The latest, as many as are to be shown. */
  readonly rows: readonly FailedRow[]
}

/** Reasons shown at the most: of more, those with the fewest rows are only counted. */
const REASONS = 25

export function renderFailures(
  { total, reasons, cells, rows }: FailureOverview,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  if (total === 0) return [`${paint('good', '✓')} No row has failed.`, ...cellLines(cells, output)]
  const shown = reasons.slice(0, REASONS)
  const rest = reasons.slice(REASONS)
  const sources = new Set(reasons.map((reason) => reason.source)).size
  const states = [...new Set(reasons.map((reason) => reason.state))]
  return [
    paint('heading', `${pluralize(total, 'row')} could not be enriched`),
    '',
    ...renderTable(
      shown,
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        { title: 'state', text: (one) => formatState(one.state), style: (one) => stateStyle(one.state) },
        ...(sources > 1 ? [{ title: 'source', text: (one: FailureReason) => one.source, least: 6 }] : []),
        { title: 'reason', text: (one) => one.reason, least: 12 },
      ],
      output,
    ),
    ...(rest.length === 0
      ? []
      : [
          paint(
            'quiet',
            `and ${pluralize(
              rest.reduce((sum, one) => sum + one.rows, 0),
              'row',
            )} for ${pluralize(rest.length, 'more reason', 'more reasons')}`,
          ),
        ]),
    '',
    paint('heading', 'What becomes of them'),
    ...renderFields(
      states.map((state) => [formatState(state), FAILURE_ADVICE[state]]),
      output,
    ),
    ...cellLines(cells, output),
    '',
    paint(
      'heading',
      rows.length < total ? `The latest ${formatCount(rows.length)} of ${formatCount(total)}` : 'The rows',
    ),
    ...renderTable(
      rows,
      [
        { title: 'source', text: (row) => row.source, least: 6 },
        { title: 'key', text: (row) => row.key, least: 8 },
        { title: 'state', text: (row) => formatState(row.state), style: (row) => stateStyle(row.state) },
        { title: 'when', text: (row) => relativeTime(row.settled_at, now) },
        { title: 'reason', text: (row) => row.reason ?? '', least: 12 },
      ],
      output,
    ),
    ...(rows.length < total
      ? ['', `${paint('quiet', 'All of them:')} ${paint('type', 'fillrate failures --csv failures.csv')}`]
      : []),
  ]
}

/** What a record held and its column did not get. */
function cellLines(cells: readonly SkippedCells[], output: Output): string[] {
  if (cells.length === 0) return []
  const sources = new Set(cells.map((cell) => cell.source)).size
  const rest = cells.length - REASONS
  return [
    '',
    output.paint('heading', 'Cells that were left out, in rows that are otherwise written'),
    ...renderTable(
      cells.slice(0, REASONS),
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        ...(sources > 1 ? [{ title: 'source', text: (one: SkippedCells) => one.source, least: 6 }] : []),
        { title: 'column', text: (one) => one.column, least: 8 },
        { title: 'reason', text: (one) => cellWords(one.reason), least: 12 },
      ],
      output,
    ),
    ...(rest > 0 ? [output.paint('quiet', `and ${pluralize(rest, 'more reason', 'more reasons')}`)] : []),
  ]
}

/** What a cell's reason means, where its name alone does not say it. */
const CELL_WORDS: Readonly<Record<string, string>> = {
  unmapped: 'its `map` has no entry for the value',
  no_match: 'the value does not match `matches`',
  no_value: 'its `sql` gives nothing for the value: no such row in another table, perhaps',
  too_long: "the text is longer than the column; `tooLong: 'truncate'` cuts it",
  out_of_range: 'the number is out of the range of the column',
  no_such_label: 'no label of the enum is like the value; a `map` makes one of it',
  group_incomplete: 'another cell of its group has no value, and a group is written whole',
}

const cellWords = (reason: string): string => CELL_WORDS[reason] ?? formatState(reason)

/** One record of a CSV file (RFC 4180). A text that a spreadsheet would take for a formula is made plain by a quote. */
export function formatCsvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoted(field ?? '')).join(',')}\r\n`
}

function quoted(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
