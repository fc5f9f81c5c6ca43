import type { ForgetReport } from '../../actions/forget.ts'
import type { Output } from '../terminal.ts'
import { type LabeledText, renderFields, renderSuggestions, renderTable } from './layout.ts'
import { formatCount, pluralize } from '../../util/format.ts'

/** Rows shown at the most; `--json` has them all. */
const SHOWN = 20

/** What was erased, where it was looked for, and what is left to do outside of Fillrate. */
export function renderForget(report: ForgetReport, output: Output): string[] {
  const { paint } = output
  const { erased, searched, remaining, dry_run: dry } = report
  const nothing = Object.values(erased).every((one) => one === 0)
  const places = `${pluralize(searched.columns, 'column')} of ${pluralize(searched.tables, 'table')}`
  const found = remaining.reduce((sum, one) => sum + one.rows, 0)
  return [
    nothing
      ? `${paint('good', '✓')} Nothing of it is stored${dry ? '../render' : '; it will never be asked.'}`
      : `${paint('good', '✓')} ${dry ? 'Would be erased' : 'Erased'}, ${dry ? 'and never asked again:' : 'and never to be asked again:'}`,
    '',
    ...renderFields(
      [
        ...(nothing
          ? []
          : ([
              ['Lookups', formatCount(erased.lookups), `${pluralize(erased.records, 'record')} among them`],
              ['Rows', formatCount(erased.rows), 'suppressed, without what was written'],
              ['Changes', formatCount(erased.changes), 'values before and after'],
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
    ...ownRows(report, output),
    ...renderSuggestions(
      dry ? [['fillrate forget', 'with the same options and without --dry-run: erases it']] : [],
      output,
    ),
  ]
}

const unreadable = (bodies: number): [string] | [] =>
  bodies === 0 ? [] : [`and ${pluralize(bodies, 'delivery', 'deliveries')} that could not be read, whole`]

function ownRows({ rows }: ForgetReport, output: Output): string[] {
  if (rows.length === 0) return []
  return [
    '',
    output.paint('heading', 'Your own rows, which Fillrate leaves as they are'),
    ...renderTable(
      rows.slice(0, SHOWN),
      [
        { title: 'source', text: (row) => row.source, least: 6 },
        { title: 'key', text: (row) => row.key, least: 8 },
      ],
      output,
    ),
    ...(rows.length > SHOWN
      ? [output.paint('quiet', `and ${formatCount(rows.length - SHOWN)} more; --json has them`)]
      : []),
  ]
}
