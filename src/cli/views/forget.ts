import type { ForgetReport } from '../../actions/forget.ts'
import type { Output } from '../terminal.ts'
import { type LabeledText, renderFields, renderSuggestions, renderTable } from './layout.ts'
import { formatCount, pluralize } from '../../util/format.ts'

/** Rows shown; `--json` has all. */
const MAX_ROWS = 20

/**
 * What was erased, what was searched, and the affected rows in the user's own tables.
 * @param options.isQuestion the preview above a question, which takes the place of the next command
 */
export function renderForget(
  report: ForgetReport,
  output: Output,
  { isQuestion = false }: { readonly isQuestion?: boolean } = {},
): string[] {
  const { paint } = output
  const { erased, searched, remaining, dry_run: dry } = report
  const nothing = Object.values(erased).every((one) => one === 0)
  const places = `${pluralize(searched.columns, 'column')} of ${pluralize(searched.tables, 'table')}`
  const found = remaining.reduce((sum, one) => sum + one.rows, 0)
  return [
    nothing
      ? `${paint('good', '✓')} No stored data found${dry ? '.' : '; further lookups are suppressed.'}`
      : `${paint('good', '✓')} ${dry ? 'Would be erased, and further lookups suppressed:' : 'Erased; further lookups are suppressed:'}`,
    '',
    ...renderFields(
      [
        ...(nothing
          ? []
          : ([
              ['Lookups', formatCount(erased.lookups), `${pluralize(erased.records, 'record')} among them`],
              ['Rows', formatCount(erased.rows), 'suppressed, written values removed'],
              ['Changes', formatCount(erased.changes), 'previous and written values'],
              ['Deliveries', pluralize(erased.results, 'result'), ...unreadable(erased.bodies)],
              ['Mentions', formatCount(erased.mentions), 'in reasons, notes and conditions'],
            ] satisfies LabeledText[])),
        ['Searched', places, found === 0 ? 'nothing left' : `found in ${pluralize(found, 'row')}`],
      ],
      output,
    ),
    ...remaining.map((one) =>
      paint('bad', `  still in ${pluralize(one.rows, 'row')} of fillrate.${one.table}.${one.column}`),
    ),
    ...renderOwnRows(report, output),
    ...renderSuggestions(
      dry && !isQuestion ? [['fillrate forget', 'the same options without --dry-run: erases this data']] : [],
      output,
    ),
  ]
}

const unreadable = (bodies: number): [string] | [] =>
  bodies === 0
    ? []
    : [`and ${pluralize(bodies, 'delivery', 'deliveries')} that could not be parsed, erased completely`]

function renderOwnRows({ rows }: ForgetReport, output: Output): string[] {
  if (rows.length === 0) return []
  return [
    '',
    output.paint('heading', 'Your own rows, not changed by Fillrate'),
    ...renderTable(
      rows.slice(0, MAX_ROWS),
      [
        { title: 'source', text: (row) => row.source, minColumns: 6 },
        { title: 'key', text: (row) => row.key, minColumns: 8 },
      ],
      output,
    ),
    ...(rows.length > MAX_ROWS
      ? [output.paint('quiet', `and ${formatCount(rows.length - MAX_ROWS)} more; see --json`)]
      : []),
  ]
}
