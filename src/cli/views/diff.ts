import type { DiffRow, DryRunReport } from '../../pipeline/preview.ts'
import { type Output, truncate } from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import { formatCount, pluralize } from '../../util/format.ts'
import { formatValue, renderSection } from './layout.ts'
import { renderCellGroups, renderTable } from './table.ts'

/** Rows before and after, cell by cell. */
export function renderDiff(sample: readonly DiffRow[], output: Output): string[] {
  const { paint } = output
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  const renderTitle = (row: DiffRow): string[] => [
    truncate(`  ${paint('heading', sanitize(row.key))}  ${paint('quiet', describeRow(row))}`, edge),
  ]
  const lines = renderCellGroups(output, sample, renderTitle, [
    { title: 'column', text: (cell) => cell.column, minColumns: 8 },
    { title: 'before', text: (cell) => formatValue(cell.before), minColumns: 8 },
    { title: 'after', text: (cell) => formatValue(cell.after), minColumns: 8, style: () => 'good' },
    { title: 'service', text: (cell) => cell.service ?? '', minColumns: 6 },
  ])
  return lines
}

const describeRow = ({ source, confidence }: DiffRow): string =>
  confidence === null ? source : `${source}, confidence ${confidence}`

/** The result of a dry run, below a blank line: cells by column, and a sample of rows. Empty if nothing would be written. */
export function renderDryRun({ columns, sample }: DryRunReport, output: Output): string[] {
  const written = columns.filter((column) => column.written > 0)
  if (written.length === 0) return []
  const several = new Set(columns.map((column) => column.source)).size > 1
  const [, ...lines] = renderTable(
    output,
    written,
    [
      {
        title: 'column',
        text: (one) => (several ? `${one.source}.${one.column}` : one.column),
        minColumns: 10,
      },
      { title: 'cells', text: (one) => formatCount(one.written), number: true },
    ],
    { indent: 2 },
  )
  return [
    ...renderSection(output, 'Cells that would be written', lines),
    ...renderSection(
      output,
      `Before and after, in ${pluralize(sample.length, 'row')}`,
      renderDiff(sample, output),
    ),
  ]
}
