import { formatState } from '../../domain/row.ts'
import type { RetryReport } from '../../actions/retry.ts'
import type { Output } from '../terminal.ts'
import {
  type LabeledText,
  SOURCE_COLUMN,
  compact,
  renderFields,
  renderSuggestions,
  renderTable,
} from './layout.ts'
import { formatCount, pluralize } from '../../util/format.ts'

/** Reasons shown; `--json` has all. */
const MAX_REASONS = 25

/** The queued rows by reason, their cost, and the next commands. */
export function renderRetry(report: RetryReport, output: Output): string[] {
  const { paint } = output
  const { rows, reasons, lookups, without_call: free, row_missing, complete, dry_run: dry } = report
  const left = compact([
    row_missing > 0 && `${pluralize(row_missing, 'row')} no longer in the source`,
    complete > 0 && `${pluralize(complete, 'row')} already complete`,
  ]).join(', ')
  if (rows === 0)
    return [`${paint('good', '✓')} No failed rows to retry.${left === '' ? '' : ` Skipped: ${left}.`}`]
  const sources = [...new Set(reasons.map((one) => one.source))].join(' ')
  const costs = compact<LabeledText>([
    ['To look up', lookups === 0 ? 'none' : pluralize(lookups, 'lookup')],
    ['Without a call', free === 0 ? 'none' : `${pluralize(free, 'row')} with a stored record`],
    left !== '' && ['Skipped', left],
  ])
  return [
    paint('heading', `${pluralize(rows, 'row')} ${dry ? 'would be' : rows === 1 ? 'is' : 'are'} due`),
    '',
    ...renderTable(
      output,
      reasons,
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        { title: 'state', text: (one) => formatState(one.state) },
        { ...SOURCE_COLUMN, ifDifferent: true },
        { title: 'reason', text: (one) => one.reason, minColumns: 12 },
      ],
      { max: MAX_REASONS, describeRest: (rest) => `and ${formatCount(rest.length)} more reasons` },
    ),
    '',
    ...renderFields(output, costs),
    ...renderSuggestions(
      output,
      dry
        ? [['fillrate retry', 'queues them; use the same options']]
        : [
            [`fillrate run ${sources}`, 'picks them, and all other rows that are due'],
            [`fillrate plan ${sources}`, 'estimates lookups and cost'],
          ],
    ),
  ]
}
