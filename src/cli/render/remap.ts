import type { Example, RemapReport } from '../../pipeline/remap/remap.ts'
import type { Output } from '../output.ts'
import { countLines } from './counts.ts'
import { counted } from './numbers.ts'
import { reportLines } from './report.ts'
import { stepLines } from './steps.ts'
import { table } from './table.ts'
import { valueText } from './value.ts'

/** What the stored records would do to their rows, or what they did. */
export function remapLines(
  { source, examined, examples, report, dry_run: dry }: RemapReport,
  output: Output,
): string[] {
  const { paint } = output
  if (examined.rows === 0) return [`No row of ${source} has a stored record.`]
  const cells = `${counted(examined.cells, 'cell')}`
  const undone = examined.undone > 0 ? `; ${counted(examined.undone, 'row')} of them undone before` : ''
  return [
    ...(dry
      ? [
          `${paint('heading', 'Dry run:')} the stored records of ${source} would do this. Nothing was written.`,
          '',
        ]
      : []),
    ...countLines(
      [
        [examined.write, `${dry ? 'would be written' : 'to write'}: ${cells}${undone}`],
        [examined.same, 'in which nothing changes'],
        [examined.below_confidence, 'below minConfidence'],
        [examined.inputs_changed, 'whose inputs have changed: the next run picks them'],
        [examined.gone, 'no longer in the source'],
      ],
      [examined.rows, `rows of ${source} with a stored record`],
      output,
    ),
    ...(dry ? exampleLines(examples, output) : []),
    ...(dry && examined.write > 0
      ? stepLines([[`fillrate remap ${source}`, 'writes them, without a call']], output)
      : []),
    ...(report === null || report.rows.picked === 0 ? [] : ['', ...reportLines(report, output)]),
    ...(report !== null && report.cells.written > 0
      ? stepLines([[`fillrate undo ${report.run}`, 'takes it back']], output)
      : []),
  ]
}

function exampleLines(examples: readonly Example[], output: Output): string[] {
  if (examples.length === 0) return []
  const cells = examples.flatMap(({ key, cells: list }) =>
    list.map((cell, n) => ({ ...cell, key: n === 0 ? key : '' })),
  )
  return [
    '',
    output.paint(
      'heading',
      examples.length === 1 ? 'The row' : `The first ${counted(examples.length, 'row')}`,
    ),
    ...table(
      cells,
      [
        { title: 'key', text: (cell) => cell.key, least: 8 },
        { title: 'column', text: (cell) => cell.column, least: 8 },
        { title: 'before', text: (cell) => valueText(cell.before), least: 6 },
        { title: 'after', text: (cell) => valueText(cell.after), least: 8 },
      ],
      output,
    ),
  ]
}
