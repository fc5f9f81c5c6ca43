import type { FailedRow, FailureReason, FailureState } from '../../store/failures.ts'
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

/** What becomes of such rows by themselves, and what one can do. */
const HELP: Readonly<Record<FailureState, string>> = {
  failed: 'the service gave no answer; asked again by a run from the next day on, or after `fillrate retry`',
  refused:
    'the service does not take the question; asked again when the row changes, or after `fillrate retry`',
  write_rejected:
    'the answer is kept, and the database would not have it in its column; `fillrate retry` has it written without a call',
  invalid_input: 'not asked; correct the row, and the next run picks it',
  below_confidence:
    'answered, but less surely than minConfidence asks for; with a lower one, `fillrate remap SOURCE` writes it without a call',
}

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
      states.map((state) => [stateWords(state), HELP[state]]),
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
