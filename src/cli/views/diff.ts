import type { DiffCell, DiffRow, DryRunReport } from '../../pipeline/preview.ts'
import { type Output, truncate } from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import { formatCount, pluralize } from '../../util/format.ts'
import { formatValue, renderTable, renderText } from './layout.ts'

const INDENT = '    '

/** Rows before and after, cell by cell. Touched columns, the same in each row, are listed once. */
export function renderDiff(sample: readonly DiffRow[], output: Output): string[] {
  const { paint } = output
  const cells = sample.flatMap((row) => row.cells)
  if (cells.length === 0) return []
  const [head = '', ...body] = renderTable(output, cells, [
    { title: `${INDENT}column`, text: (cell) => INDENT + cell.column, minColumns: 12 },
    { title: 'before', text: (cell) => formatValue(cell.before), minColumns: 8 },
    { title: 'after', text: (cell) => formatValue(cell.after), minColumns: 8, style: () => 'good' },
  ])
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  return [
    head,
    ...sample.flatMap((row) => [
      truncate(`  ${paint('heading', sanitize(row.key))}  ${paint('quiet', describeRow(row))}`, edge),
      ...body.splice(0, row.cells.length),
    ]),
    ...renderTouchedColumns(sample, output),
  ]
}

const describeRow = ({ source, confidence }: DiffRow): string =>
  confidence === null ? source : `${source}, confidence ${confidence}`

function renderTouchedColumns(sample: readonly DiffRow[], output: Output): string[] {
  const bySource = Map.groupBy(sample, (row) => row.source)
  return [...bySource].flatMap(([source, rows]) => {
    const columns = new Set(rows.flatMap((row) => row.touched.map((cell: DiffCell) => cell.column)))
    if (columns.size === 0) return []
    return renderText(output, `Also set in each row of ${source}: ${[...columns].join(', ')}`, 'quiet')
  })
}

/** The result of a dry run: cells by column, and a sample of rows. */
export function renderDryRun({ columns, sample }: DryRunReport, output: Output): string[] {
  const written = columns.filter((column) => column.written > 0)
  if (written.length === 0) return []
  const several = new Set(columns.map((column) => column.source)).size > 1
  return [
    output.paint('heading', 'Cells that would be written'),
    ...renderTable(output, written, [
      {
        title: '  column',
        text: (one) => `  ${several ? `${one.source}.` : ''}${one.column}`,
        minColumns: 12,
      },
      { title: 'cells', text: (one) => formatCount(one.written), number: true },
    ]).slice(1),
    ...(sample.length === 0
      ? []
      : [
          '',
          output.paint('heading', `Before and after, in ${pluralize(sample.length, 'row')}`),
          ...renderDiff(sample, output),
        ]),
  ]
}
