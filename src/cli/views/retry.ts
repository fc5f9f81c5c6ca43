import type { RetryReport } from '../../actions/retry.ts'
import type { Output } from '../terminal.ts'
import { type LabeledText, formatState, renderFields, renderSuggestions, renderTable } from './layout.ts'
import { formatCount, pluralize } from '../../util/format.ts'

/** Reasons shown at the most; `--json` has them all. */
const REASONS = 25

/** What was made due, by reason, what it will cost, and what to type next. */
export function renderRetry(report: RetryReport, output: Output): string[] {
  const { paint } = output
  const { rows, reasons, lookups, without_call: free, row_missing, complete, dry_run: dry } = report
  const left = [
    ...(row_missing > 0 ? [`${pluralize(row_missing, 'row')} no longer in the source`] : []),
    ...(complete > 0 ? [`${pluralize(complete, 'row')} in which nothing is lacking any more`] : []),
  ].join(', ')
  if (rows === 0)
    return [`${paint('good', '✓')} Nothing to try again.${left === '' ? '' : ` Left alone: ${left}.`}`]
  const several = new Set(reasons.map((one) => one.source)).size > 1
  const sources = [...new Set(reasons.map((one) => one.source))].join(' ')
  const costs: LabeledText[] = [
    ['To ask', lookups === 0 ? 'nothing' : pluralize(lookups, 'lookup')],
    ['Without a call', free === 0 ? 'none' : `${pluralize(free, 'row')} whose answer is stored`],
    ...(left === '' ? [] : [['Left alone', left] as const]),
  ]
  return [
    paint('heading', `${pluralize(rows, 'row')} ${dry ? 'would be' : rows === 1 ? 'is' : 'are'} due`),
    '',
    ...renderTable(
      reasons.slice(0, REASONS),
      [
        { title: 'rows', text: (one) => formatCount(one.rows), number: true },
        { title: 'state', text: (one) => formatState(one.state) },
        ...(several
          ? [{ title: 'source', text: (one: (typeof reasons)[number]) => one.source, least: 6 }]
          : []),
        { title: 'reason', text: (one) => one.reason, least: 12 },
      ],
      output,
    ),
    ...(reasons.length > REASONS
      ? [paint('quiet', `and ${formatCount(reasons.length - REASONS)} more reasons`)]
      : []),
    '',
    ...renderFields(costs, output),
    ...renderSuggestions(
      dry
        ? [['fillrate retry', 'makes them due, with the same options']]
        : [
            [`fillrate run ${sources}`, 'picks them, and whatever else is due'],
            [`fillrate plan ${sources}`, 'what that would ask and cost'],
          ],
      output,
    ),
  ]
}
