import { FAILURE_ADVICE } from '../../domain/row.ts'
import { describeSkip } from '../../domain/skipped-cell.ts'
import type { FailedRow, FailureReason, SkippedCells } from '../../store/failures.ts'
import type { Output } from '../terminal.ts'
import { formatState, renderFields, renderTable, stateStyle } from './layout.ts'
import { formatCount, pluralize, relativeTime } from '../../util/format.ts'

export interface FailureOverview {
  readonly total: number
  readonly reasons: readonly FailureReason[]
  /** Skipped cells of rows in any state, enriched rows included. */
  readonly cells: readonly SkippedCells[]
  /** The latest rows. */
  readonly rows: readonly FailedRow[]
}

/** Reasons shown; of the others, only the number is. */
const MAX_REASONS = 25

export function renderFailures(
  { total, reasons, cells, rows }: FailureOverview,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  if (total === 0) return [`${paint('good', '✓')} No failed rows.`, ...renderSkippedCells(cells, output)]
  const shown = reasons.slice(0, MAX_REASONS)
  const rest = reasons.slice(MAX_REASONS)
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
        ...(sources > 1
          ? [{ title: 'source', text: (one: FailureReason) => one.source, minColumns: 6 }]
          : []),
        { title: 'reason', text: (one) => one.reason, minColumns: 12 },
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
    paint('heading', 'How to fix them'),
    ...renderFields(
      states.map((state) => [formatState(state), FAILURE_ADVICE[state]]),
      output,
    ),
    ...renderSkippedCells(cells, output),
    '',
    paint(
      'heading',
      rows.length < total ? `Latest ${formatCount(rows.length)} of ${formatCount(total)}` : 'Rows',
    ),
    ...renderTable(
      rows,
      [
        { title: 'source', text: (row) => row.source, minColumns: 6 },
        { title: 'key', text: (row) => row.key, minColumns: 8 },
        { title: 'state', text: (row) => formatState(row.state), style: (row) => stateStyle(row.state) },
        { title: 'when', text: (row) => relativeTime(row.settled_at, now) },
        { title: 'reason', text: (row) => row.reason ?? '', minColumns: 12 },
      ],
      output,
    ),
    ...(rows.length < total
      ? ['', `${paint('quiet', 'All rows:')} ${paint('type', 'fillrate failures --csv failures.csv')}`]
      : []),
  ]
}

/** Values of records that were not written to their columns. */
function renderSkippedCells(cells: readonly SkippedCells[], output: Output): string[] {
  if (cells.length === 0) return []
  const sources = new Set(cells.map((cell) => cell.source)).size
  const rest = cells.length - MAX_REASONS
  return [
    '',
    output.paint('heading', 'Skipped cells in rows that were written otherwise'),
    ...renderTable(
      cells.slice(0, MAX_REASONS),
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        ...(sources > 1 ? [{ title: 'source', text: (one: SkippedCells) => one.source, minColumns: 6 }] : []),
        { title: 'column', text: (one) => one.column, minColumns: 8 },
        { title: 'reason', text: (one) => describeSkip(one), minColumns: 12 },
      ],
      output,
    ),
    ...(rest > 0 ? [output.paint('quiet', `and ${pluralize(rest, 'more reason', 'more reasons')}`)] : []),
  ]
}

/** One record of a CSV file (RFC 4180). A text that a spreadsheet would evaluate as a formula gets a leading quote. */
export function formatCsvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoteField(field ?? '')).join(',')}\r\n`
}

function quoteField(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
