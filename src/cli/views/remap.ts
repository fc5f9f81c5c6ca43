import type { RemapReport } from '../../actions/remap.ts'
import type { Output } from '../terminal.ts'
import { renderCounts, renderSuggestions } from './layout.ts'
import { renderDryRun } from './diff.ts'
import { pluralize } from '../../util/format.ts'
import { renderReport } from './report.ts'
import { renderSkippedSection } from './skipped-cells.ts'

/** What a remap would write, or has written. */
export function renderRemap(
  { source, examined, skipped_cells: skipped, columns, sample, report, dry_run: dry }: RemapReport,
  output: Output,
): string[] {
  const { paint } = output
  if (examined.rows === 0) return [`No row of ${source} has a stored record.`]
  const cells = `${pluralize(examined.cells, 'cell')}`
  const undone = examined.undone > 0 ? `; ${pluralize(examined.undone, 'row')} of them undone before` : ''
  return [
    ...(dry
      ? [
          `${paint('heading', 'Dry run:')} a remap of ${source} would have this result. Nothing was written.`,
          '',
        ]
      : []),
    ...renderCounts(
      output,
      [examined.rows, `rows of ${source} with a stored record`],
      [
        [examined.changed, `${dry ? 'would be written' : 'to write'}: ${cells}${undone}`],
        [examined.unchanged, 'unchanged'],
        [examined.below_confidence, 'below minConfidence'],
        [examined.inputs_changed, 'with changed inputs: the next run picks them'],
        [examined.row_missing, 'no longer in the source'],
      ],
    ),
    ...(dry ? renderSkippedSection('Cells that would be skipped', skipped, output) : []),
    ...(dry ? renderDryRun({ columns, sample }, output) : []),
    ...(dry && examined.changed > 0
      ? renderSuggestions(output, [[`fillrate remap ${source}`, 'writes these rows, without a call']])
      : []),
    ...(report === null || report.rows.picked === 0 ? [] : ['', ...renderReport(report, output)]),
    ...(report !== null && report.cells.written > 0
      ? renderSuggestions(output, [[`fillrate undo ${report.run}`, 'undoes this remap']])
      : []),
  ]
}
