import type { RemapReport } from '../../actions/remap.ts'
import type { Output } from '../output.ts'
import { countLines } from './counts.ts'
import { dryRunLines } from './diff.ts'
import { pluralize } from '../../util/format.ts'
import { reportLines } from './report.ts'
import { stepLines } from './steps.ts'

/** What the stored records would do to their rows, or what they did. */
export function remapLines(
  { source, examined, columns, sample, report, dry_run: dry }: RemapReport,
  output: Output,
): string[] {
  const { paint } = output
  const cellLines = dry ? dryRunLines({ columns, sample }, output) : []
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
    ...countLines(
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
      ? stepLines([[`fillrate remap ${source}`, 'writes them, without a call']], output)
      : []),
    ...(report === null || report.rows.picked === 0 ? [] : ['', ...reportLines(report, output)]),
    ...(report !== null && report.cells.written > 0
      ? stepLines([[`fillrate undo ${report.run}`, 'takes it back']], output)
      : []),
  ]
}
