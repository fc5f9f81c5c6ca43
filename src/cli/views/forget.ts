import type { ForgetDeletedReport } from '../../runs/reconcile-deleted.ts'
import type { ForgetReport } from '../../actions/forget.ts'
import type { StoredSuppression } from '../../store/suppressions.ts'
import type { Output } from '../terminal.ts'
import { type Field, compact, renderFields, renderSuggestions } from './layout.ts'
import { renderKeyedRows, renderTable } from './table.ts'
import { formatCount, pluralize } from '../../util/format.ts'

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
  const { erased, searched, remaining, unsearched, dry_run: dry } = report
  const nothing = Object.values(erased).every((one) => one === 0)
  const places = `${pluralize(searched.columns, 'column')} of ${pluralize(searched.tables, 'table')}`
  const found = remaining.reduce((sum, one) => sum + one.rows, 0)
  const fate = nothing
    ? `No stored data found${dry ? '.' : '; further lookups are suppressed.'}`
    : dry
      ? 'Would be erased, and further lookups suppressed:'
      : 'Erased; further lookups are suppressed:'
  return compact([
    `${paint('good', '✓')} ${fate}`,
    '',
    ...renderFields(output, [
      ...(nothing ? [] : erasedFields(erased)),
      ['Searched', places, found === 0 ? 'nothing left' : `found in ${pluralize(found, 'row')}`],
    ]),
    ...remaining.map((one) =>
      paint('bad', `  still in ${pluralize(one.rows, 'row')} of fillrate.${one.table}.${one.column}`),
    ),
    ...unsearched.map(({ source, reason }) => paint('bad', `  not searched: ${source} (${reason})`)),
    unsearched.length > 0 &&
      '  What was written to rows whose record has expired may be left there. Correct it (`fillrate check`), and run the same command again.',
    ...renderKeyedRows(output, 'Your own rows, not changed by Fillrate', report.rows, [], 'see --json'),
    ...renderSuggestions(output, [
      dry && !isQuestion && ['fillrate forget', 'the same options without --dry-run: erases this data'],
    ]),
  ])
}

/** The stored data of deleted rows, or the erased part. */
export function renderForgetDeleted(
  { source, deleted, erased }: ForgetDeletedReport,
  output: Output,
): string[] {
  const { paint } = output
  if (deleted === 0)
    return [`${paint('good', '✓')} No row of ${source} was deleted from its table, as far as is known.`]
  const gone = `${pluralize(deleted, 'row')} of ${source} ${deleted === 1 ? 'was' : 'were'} deleted from its table`
  if (erased === null) return [`${gone}; what is stored of ${deleted === 1 ? 'it' : 'them'} can be erased.`]
  const left = deleted - erased.rows
  return [
    `${paint('good', '✓')} ${gone}. Erased; nothing is suppressed:`,
    '',
    ...renderFields(output, [
      [
        'Rows',
        formatCount(erased.rows),
        left > 0 ? `${formatCount(left)} are back, or wait for an answer` : '',
      ],
      [
        'Lookups',
        formatCount(erased.lookups),
        `${pluralize(erased.records, 'record')} among them; those that other rows need stay`,
      ],
      ['Changes', formatCount(erased.changes), 'previous and written values'],
      ['Deliveries', pluralize(erased.results, 'result')],
    ]),
  ]
}

/** What is suppressed. The hash of an identifier is the SHA-256 of its kind, a line break, and the identifier. */
export function renderSuppressions(suppressions: readonly StoredSuppression[], output: Output): string[] {
  if (suppressions.length === 0) return ['Nothing is suppressed.']
  return [
    ...renderTable(output, suppressions, [
      { title: 'since', text: ({ since }) => since.toISOString(), minColumns: 24 },
      { title: 'kind', text: ({ kind }) => kind, minColumns: 12 },
      { title: 'hash', text: ({ hash }) => hash, minColumns: 64 },
    ]),
    '',
    `${pluralize(suppressions.length, 'suppression')}; the identifiers themselves are erased. \`fillrate forget --email … --allow-again\` takes one back.`,
  ]
}

const erasedFields = (erased: ForgetReport['erased']): Field[] => [
  ['Lookups', formatCount(erased.lookups), `${pluralize(erased.records, 'record')} among them`],
  [
    'Linked',
    formatCount(erased.linked_lookups),
    'lookups of other identifiers that it is linked to, among them',
  ],
  ['Rows', formatCount(erased.rows), 'suppressed, written values removed'],
  ['Changes', formatCount(erased.changes), 'previous and written values'],
  [
    'Deliveries',
    pluralize(erased.results, 'result'),
    erased.bodies === 0
      ? ''
      : `and ${pluralize(erased.bodies, 'delivery', 'deliveries')} that could not be parsed, erased completely`,
  ],
  ['Mentions', formatCount(erased.mentions), 'in records and cells of others, reasons, notes and conditions'],
]
