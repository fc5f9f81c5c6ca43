import { FAILURE_ADVICE, formatState } from '../../domain/row.ts'
import type { SkippedGroup, SkipReason } from '../../domain/skipped-cell.ts'
import type { FailedRow, FailureReason } from '../../store/failures.ts'
import type { RetiredSource } from '../../store/retire-source.ts'
import type { Output } from '../terminal.ts'
import { SOURCE_COLUMN, renderFields, renderTable, renderText, stateStyle } from './layout.ts'
import { describeRarest, renderSkippedGroups } from './skipped-cells.ts'
import { retiredFields } from './status.ts'
import { formatCount, pluralize, relativeTime } from '../../util/format.ts'

export interface FailureOverview {
  readonly total: number
  readonly reasons: readonly FailureReason[]
  /** Skipped cells by reason, of rows in any state, enriched rows included. */
  readonly cells: readonly SkippedGroup[]
  /** The latest rows. */
  readonly rows: readonly FailedRow[]
  /** Sources that left the configuration, and have failed rows beside these. */
  readonly retired: readonly RetiredSource[]
}

/** Reasons shown; of the others, only the number is. */
const MAX_REASONS = 25

export function renderFailures(found: FailureOverview, output: Output, now: number): string[] {
  const retired = found.retired.map((one) => ({ ...one, rows: one.failed, deleted: 0 }))
  return [
    ...renderFound(found, output, now),
    ...(retired.length === 0 ? [] : ['', ...renderFields(output, retiredFields(retired))]),
  ]
}

function renderFound(
  { total, reasons, cells, rows }: FailureOverview,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  if (total === 0) return [`${paint('good', '✓')} No failed rows.`, ...renderSkippedCells(cells, output)]
  const states = [...new Set(reasons.map((reason) => reason.state))]
  return [
    paint('heading', `${pluralize(total, 'row')} could not be enriched`),
    '',
    // Sorted by size: only the rarest are summed up.
    ...renderTable(
      output,
      reasons,
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        { title: 'state', text: (one) => formatState(one.state), style: (one) => stateStyle(one.state) },
        { ...SOURCE_COLUMN, ifDifferent: true },
        { title: 'reason', text: (one) => one.reason, minColumns: 12, wraps: true },
      ],
      { max: MAX_REASONS, describeRest: (rest) => describeRarest(rest, 'row') },
    ),
    '',
    paint('heading', 'How to fix them'),
    ...renderFields(
      output,
      states.map((state) => [formatState(state), FAILURE_ADVICE[state]]),
    ),
    ...renderSkippedCells(cells, output),
    '',
    paint(
      'heading',
      rows.length < total ? `Latest ${formatCount(rows.length)} of ${formatCount(total)}` : 'Rows',
    ),
    ...renderTable(output, rows, [
      { title: 'source', text: (row) => row.source, minColumns: 4 },
      { title: 'key', text: (row) => row.key, minColumns: 4 },
      {
        title: 'state',
        text: (row) => formatState(row.state),
        style: (row) => stateStyle(row.state),
        minColumns: 6,
      },
      { title: 'when', text: (row) => relativeTime(row.settled_at, now), minColumns: 6 },
      { title: 'reason', text: (row) => row.reason ?? '', minColumns: 12, wraps: true },
    ]),
    ...(rows.length < total
      ? ['', `${paint('quiet', 'All rows:')} ${paint('type', 'fillrate failures --csv failures.csv')}`]
      : []),
  ]
}

/** Values of records that were not written to their cells, in rows of any state. */
function renderSkippedCells(cells: readonly SkippedGroup[], output: Output): string[] {
  if (cells.length === 0) return []
  const total = cells.reduce((sum, group) => sum + group.rows, 0)
  const advice = SKIP_ADVICE.filter(([reasons]) => cells.some((group) => reasons.includes(group.reason)))
  return [
    '',
    output.paint('heading', `${pluralize(total, 'cell')} skipped`),
    ...renderSkippedGroups(cells, output, { max: MAX_REASONS }),
    ...(advice.length === 0 ? [] : ['', output.paint('heading', 'How to fill them')]),
    ...advice.flatMap(([, text]) => renderText(output, text)),
  ]
}

/** What a user can do about skipped cells. */
const SKIP_ADVICE: ReadonlyArray<readonly [reasons: readonly SkipReason[], advice: string]> = [
  [
    ['unmapped', 'no_such_label'],
    'Values without an entry: add them to `map`, then `fillrate remap SOURCE`.',
  ],
  [['too_long'], "Texts that are too long: `tooLong: 'truncate'` cuts them."],
  [['below_confidence'], 'Too little confidence: lower `minConfidence`, then `fillrate remap SOURCE`.'],
  [
    ['row_rejected'],
    'Rejected rows: correct what the reason names; `fillrate retry` writes them again without a call.',
  ],
]
