import { ConfigProblems } from '../../../config/problems.ts'
import { toSentenceCase } from '../../../util/format.ts'
import {
  describeChange,
  describeOrigin,
  listLookupFacts,
  listRowNotes,
} from '../../../actions/explain/words.ts'
import type {
  RowChange,
  ColumnState,
  ExplainedField,
  RowHistory,
} from '../../../actions/explain/row-history.ts'
import { Row } from '../../../domain/row.ts'
import { buildUrl, html, sourceUrl, type Html, type HtmlPart } from '../html.ts'
import { missing, type Page } from '../page.ts'
import { requireApp } from '../actions/action.ts'
import {
  breakable,
  card,
  dataTable,
  definitionList,
  empty,
  nameText,
  pageHead,
  stateBadge,
  timeAgo,
  withCode,
} from '../components.ts'

/** The history of one row, as in `fillrate explain`. */
export const rowPage: Page = {
  path: '/row',
  within: '/rows',
  show: async ({ query }, deps) => {
    const source = query.get('source') ?? ''
    const key = query.get('key') ?? ''
    const history = await requireApp(deps).explain(source, key.trim()).catch(refuseRow)
    return { title: `${source} ${history.key}`, body: rowBody(history, Date.now()) }
  },
}

/** @throws PageRefused if there is no such source or row */
function refuseRow(error: unknown): never {
  if (!(error instanceof ConfigProblems)) throw error
  const [problem] = error.problems
  const text = problem ? toSentenceCase(`${problem.found}. Expected: ${problem.expected}.`) : error.message
  throw missing('No such row', html`${text} <a href="/rows">All rows</a>`)
}

function rowBody(history: RowHistory, now: number): Html {
  const { source, key, table, state, row } = history
  return html`${pageHead([html`<span class="sub"><a href="${sourceUrl(source)}">${source}</a> · ${table}</span> `, key], html`<a href="${buildUrl('/rows', { source })}">All rows of the source</a>`)}
    <div class="grid">
      <div class="stack">
        ${card('state', 'Status', [
          html`<p>
            ${state === null ? 'Never picked.' : [stateBadge(state.state), ' ', state.settled_at === null ? ['picked ', timeAgo(state.picked_at, now)] : timeAgo(state.settled_at, now), state.run !== null && state.state !== Row.suppressed && html` by <a href="/runs/${state.run}">run ${state.run}</a>`]}
          </p>`,
          html`<ul class="notes">
            ${listRowNotes(history).map(({ text }) => html`<li>${text}</li>`)}
          </ul>`,
        ])}
        ${card('values', 'Current values', row.columns.length === 0 ? empty('The row is deleted.') : [inputsList(row), columnsTable(row.columns, history.source)])}
        ${history.fields.length > 0 && card('record', 'Enrichment record', fieldsTable(history.fields))}
      </div>
      <div class="stack">
        ${card('next', 'Next step', html`<p>${history.next.at !== null && [timeAgo(history.next.at, now), ': ']}${withCode(history.next.what)}</p>`)}
        ${card('lookup', 'Lookup', lookupFields(history, now))}
        ${card('changes', 'Changes', history.changes.length === 0 ? empty('Fillrate has not written to this row.') : history.changes.map((change) => changeTable(change, now)))}
      </div>
    </div>`
}

/** Formats a value; blank values are named. */
function displayValue(given: unknown): HtmlPart {
  if (given === null || given === undefined || given === '') return html`<i>blank</i>`
  if (typeof given === 'string' && given.trim() === '') return html`<i>white space</i>`
  if (typeof given !== 'string') return JSON.stringify(given)
  return /\s/.test(given) ? given : breakable(given)
}

const inputsList = ({ inputs, filled_inputs: filled }: RowHistory['row']): Html =>
  definitionList([
    ...Object.entries(inputs).map(([name, given]) => [`input ${name}`, displayValue(given)] as const),
    ...Object.entries(filled).map(
      ([name, given]) => [`input ${name}`, [displayValue(given), ' (filled by Fillrate: not used)']] as const,
    ),
  ])

const columnsTable = (columns: readonly ColumnState[], source: string): Html =>
  dataTable<ColumnState>(
    'Columns that Fillrate may fill',
    [
      { name: 'column', kind: 'row', cell: ({ column }) => nameText(column) },
      { name: 'value', kind: 'text', cell: ({ value }) => displayValue(value) },
      { name: 'last written by', cell: (column) => !column.blank && describeOrigin(column, source) },
    ],
    columns,
    { isCaptionShown: true },
  )

const lookupFields = (history: RowHistory, now: number): Html =>
  definitionList(
    listLookupFacts(history, now).map(([label, text, more]) => [
      label,
      [breakable(text), more !== undefined && html`<br /><span class="soft">${withCode(more)}</span>`],
    ]),
  )

const fieldsTable = (fields: readonly ExplainedField[]): Html =>
  dataTable<ExplainedField>(
    'Fields of the record that are mapped to columns',
    [
      {
        name: 'field',
        kind: 'row',
        cell: ({ service, field }) => (service === undefined ? field : `${service}: ${field}`),
      },
      { name: 'value', kind: 'text', cell: ({ value }) => displayValue(value) },
      { name: 'column', cell: ({ column }) => column !== null && nameText(column) },
      { name: 'result', kind: 'text', cell: ({ result }) => withCode(result) },
    ],
    fields,
  )

type ChangedCell = RowChange['cells'][number]

const changeTable = (change: RowChange, now: number): Html =>
  dataTable<ChangedCell>(
    changeTitle(change, now),
    [
      { name: 'column', kind: 'row', cell: ({ column }) => nameText(column) },
      { name: 'before', kind: 'text', cell: ({ before }) => displayValue(before) },
      {
        name: 'after',
        kind: 'text',
        cell: ({ after, undone }) => (undone ? html`<s>${displayValue(after)}</s>` : displayValue(after)),
      },
    ],
    change.cells,
    { isCaptionShown: true },
  )

function changeTitle(change: RowChange, now: number): HtmlPart {
  const title = toSentenceCase(describeChange(change, now))
  return change.run === null ? title : html`<a href="/runs/${change.run}">${title}</a>`
}
