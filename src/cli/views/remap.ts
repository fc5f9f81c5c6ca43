import type { RemapReport } from '../../actions/remap.ts'
import type { Output } from '../terminal.ts'
import { renderCounts, renderSuggestions } from './layout.ts'
import { renderDryRun } from './diff.ts'
import { pluralize } from '../../util/format.ts'
import { renderReport } from './report.ts'

/** What the stored records would do to their rows, or what they did. */
export function renderRemap(
  { source, examined, columns, sample, report, dry_run: dry }: RemapReport,
  output: Output,
): string[] {
  const { paint } = output
  const cellLines = dry ? renderDryRun({ columns, sample }, output) : []
  if (examined.rows === 0) return [`No row of ${source} has a stored record.`]
  const cells = `${pluralize(examined.cells, 'cell')}`
  const undone = examined.undone > 0 ? `; ${pluralize(examined.undone, 'row')} of them undone before` : ''
  return [
    ...(dry
      ? [
          `${paint('heading', 'Dry run:')} the stored records of ${source} would do this. Nothing was written.`,
          '',
        ]
      : []),
    ...renderCounts(
      [
        [examined.changed, `${dry ? 'would be written' : 'to write'}: ${cells}${undone}`],
        [examined.unchanged, 'in which nothing changes'],
        [examined.below_confidence, 'below minConfidence'],
        [examined.inputs_changed, 'whose inputs have changed: the next run picks them'],
        [examined.row_missing, 'no longer in the source'],
      ],
      [examined.rows, `rows of ${source} with a stored record`],
      output,
    ),
    ...(cellLines.length > 0 ? ['', ...cellLines] : []),
    ...(dry && examined.changed > 0
      ? renderSuggestions([[`fillrate remap ${source}`, 'writes them, without a call']], output)
      : []),
    ...(report === null || report.rows.picked === 0 ? [] : ['', ...renderReport(report, output)]),
    ...(report !== null && report.cells.written > 0
      ? renderSuggestions([[`fillrate undo ${report.run}`, 'takes it back']], output)
      : []),
  ]
}
