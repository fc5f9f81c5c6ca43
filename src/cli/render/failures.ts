import { FAILURE_HELP } from '../../pipeline/failure-help.ts'
import type { FailedRow, FailureReason } from '../../store/failures.ts'
import type { Output } from '../output.ts'
import { fields } from './fields.ts'
import { count, counted, distance } from './numbers.ts'
import { stateStyle, stateWords } from './states.ts'
import { table } from './table.ts'

export interface Failures {
  readonly total: number
  readonly reasons: readonly FailureReason[]
  /** The latest, as many as are to be shown. */
  readonly rows: readonly FailedRow[]
}

/** Reasons shown at the most: of more, those with the fewest rows are only counted. */
const REASONS = 25

export function failureLines({ total, reasons, rows }: Failures, output: Output, now: number): string[] {
  const { paint } = output
  if (total === 0) return [`${paint('good', '✓')} No row has failed.`]
  const shown = reasons.slice(0, REASONS)
  const rest = reasons.slice(REASONS)
  const sources = new Set(reasons.map((reason) => reason.source)).size
  const states = [...new Set(reasons.map((reason) => reason.state))]
  return [
    paint('heading', `${counted(total, 'row')} could not be enriched`),
    '',
    ...table(
      shown,
      [
        { title: 'rows', text: (one) => count(one.rows), number: true },
        { title: 'state', text: (one) => stateWords(one.state), style: (one) => stateStyle(one.state) },
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
            `and ${counted(
              rest.reduce((sum, one) => sum + one.rows, 0),
              'row',
            )} for ${counted(rest.length, 'more reason', 'more reasons')}`,
          ),
        ]),
    '',
    paint('heading', 'What becomes of them'),
    ...fields(
      states.map((state) => [stateWords(state), FAILURE_HELP[state]]),
      output,
    ),
    '',
    paint(
      'heading',
      rows.length < total ? `The latest ${count(rows.length)} of ${count(total)}` : 'The rows',
    ),
    ...table(
      rows,
      [
        { title: 'source', text: (row) => row.source, least: 6 },
        { title: 'key', text: (row) => row.key, least: 8 },
        { title: 'state', text: (row) => stateWords(row.state), style: (row) => stateStyle(row.state) },
        { title: 'when', text: (row) => distance(row.settled_at, now) },
        { title: 'reason', text: (row) => row.reason ?? '', least: 12 },
      ],
      output,
    ),
    ...(rows.length < total
      ? ['', `${paint('quiet', 'All of them:')} ${paint('type', 'fillrate failures --csv failures.csv')}`]
      : []),
  ]
}
