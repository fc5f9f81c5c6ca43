import { ConfigProblems } from '../../../config/problems.ts'
import { pluralize, toSentenceCase } from '../../../util/format.ts'
import { describeExclusion } from '../../../actions/explain/next-step.ts'
import type {
  LookupSummary,
  RowChange,
  ColumnState,
  ExplainedField,
  RowHistory,
} from '../../../actions/explain/row-history.ts'
import { Row, formatState } from '../../../domain/row.ts'
import { POLICY_RULES } from '../../../domain/mapping.ts'
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
            ${listNotes(history).map((note) => html`<li>${note}</li>`)}
          </ul>`,
        ])}
        ${card('values', 'Current values', row.columns.length === 0 ? empty('The row is deleted.') : [inputsList(row), columnsTable(row.columns, history.source)])}
        ${(history.fields.length > 0 || history.record !== null) && card('record', 'Enrichment record', [history.fields.length > 0 && fieldsTable(history.fields), wholeRecord(history.record)])}
      </div>
      <div class="stack">
        ${card('next', 'Next step', html`<p>${history.next.at !== null && [timeAgo(history.next.at, now), ': ']}${withCode(history.next.what)}</p>`)}
        ${card('lookup', 'Lookup', lookupSection(history, now))}
        ${card('changes', 'Changes', history.changes.length === 0 ? empty('Fillrate has not written to this row.') : history.changes.map((change) => changeTable(change, now)))}
      </div>
    </div>`
}

function listNotes({ state, row }: RowHistory): string[] {
  return [
    ...(state?.reason ? [state.reason] : []),
    ...(row.exists ? [] : ['the row is deleted']),
    ...[describeExclusion(row)].filter((text) => text !== null),
    ...(row.join_count > 1 ? [`the joins return ${row.join_count} rows for this key instead of one`] : []),
    ...(row.problem === null ? [] : [`a source expression fails on this row: ${row.problem}`]),
    ...(state?.inputs_changed ? ['its inputs have changed since then'] : []),
    ...row.input_notes
      .map((one) => `${one.input} not usable: ${one.reason}`)
      .filter((text) => state?.reason !== text),
  ]
}

/** Formats a value; blank values are named. */
function displayValue(given: unknown): HtmlPart {
  if (given === null || given === undefined || given === '') return html`<i>blank</i>`
  if (typeof given === 'string' && given.trim() === '') return html`<i>white space</i>`
  if (typeof given !== 'string') return JSON.stringify(given)
  return /\s/.test(given) ? given : breakable(given)
}

/** The service's answer, whole: the table above it has only the fields that are mapped. */
const wholeRecord = (record: unknown): HtmlPart =>
  record !== null &&
  html`<details>
    <summary>Show the whole record</summary>
    <pre class="code" tabindex="0">${JSON.stringify(record, null, 2)}</pre>
  </details>`

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
      { name: 'last written by', cell: (column) => describeOwner(column, source) },
    ],
    columns,
    { isCaptionShown: true },
  )

function describeOwner(
  { policy, blank, written_by_fillrate, written_by_source: writer, written_by: by, service }: ColumnState,
  source: string,
): string {
  if (blank) return ''
  if (written_by_fillrate)
    return `${by === null ? 'Fillrate' : `run ${by}`}${service === undefined ? '' : `, ${service}`}${writer === source ? '' : `, source ${writer}`}`
  if (policy === null) return ''
  if (written_by_fillrate === null) return 'not known any more: erased'
  return POLICY_RULES[policy].replacesOthers ? 'others, overwritten by policy' : 'others, protected'
}

function lookupSection(history: RowHistory, now: number): HtmlPart {
  const { lookup, missed_lookups: missed, job, deliveries, row } = history
  const proposed =
    row.lookup_request === null
      ? row.is_suppressed
        ? 'none: its identifier was erased'
        : 'nothing'
      : ['nothing yet; it would be ', describeLookup(row.lookup_request)]
  return definitionList([
    ...missed.map((one) => ['Earlier lookup', describeAnswer(one, now)] as const),
    ['Lookup', lookup === null ? proposed : describeAnswer(lookup, now)],
    [
      'Job',
      job && [
        `${job.job_id ?? job.key}, ${pluralize(job.size, 'email')} `,
        stateBadge(job.state),
        job.finished_at === null
          ? [' due ', timeAgo(job.deadline_at, now)]
          : [' ', timeAgo(job.finished_at, now)],
        job.reason !== null && `, ${job.reason}`,
      ],
    ],
    ...deliveries.map(
      (one) =>
        [
          'Delivery',
          [html`<code>${one.event_id}</code> `, stateBadge(one.state), ' ', timeAgo(one.received_at, now)],
        ] as const,
    ),
  ])
}

const describeLookup = ({ kind, input }: { kind: string; input: Readonly<Record<string, string>> }): string =>
  `by ${kind === 'name_company' ? 'name and company' : formatState(kind)}: ${Object.values(input).join(', ')}`

/** A lookup, with its service if the database knows several, how it was requested, and what came of it. */
function describeAnswer(lookup: LookupSummary, now: number): HtmlPart {
  const { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt } = lookup
  const { service = '', state, reason, confidence, resolved_at: resolvedAt } = lookup
  return [
    `${service} ${describeLookup(lookup)} `,
    stateBadge(state),
    confidence !== null && ` confidence ${confidence}`,
    reason !== null && ` ${reason}`,
    resolvedAt !== null && [', ', timeAgo(resolvedAt, now)],
    lookup.not_before !== null && [', not before ', timeAgo(lookup.not_before, now)],
    lookup.refresh_at !== null && [', refresh due ', timeAgo(lookup.refresh_at, now)],
    lookup.went_on !== undefined && [', went on because ', withCode(lookup.went_on)],
    html`<br />`,
    at === null
      ? 'not requested yet'
      : [
          attempts > 0 ? `${pluralize(attempts, 'call')}, ` : job !== null && 'in a job, ',
          'requested ',
          timeAgo(at, now),
          run !== null && html` by <a href="/runs/${run}">run ${run}</a>`,
        ],
    inDoubt > 0 && `, ${pluralize(inDoubt, 'call')} in doubt`,
    rows > 1 && `, shared by ${pluralize(rows, 'row')}`,
  ]
}

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

function changeTable(
  { run, service, written_at: at, undoes, undone_by: by, cells }: RowChange,
  now: number,
): Html {
  return dataTable<ChangedCell>(
    [
      run === null ? 'A deleted run' : html`<a href="/runs/${run}">Run ${run}</a>`,
      service !== undefined && `, ${undoes === null ? 'from' : 'of'} ${service}`,
      ', ',
      timeAgo(at, now),
      undoes !== null && `, undoes run ${undoes}`,
      by !== null && `, undone by run ${by}`,
    ],
    [
      { name: 'column', kind: 'row', cell: ({ column }) => nameText(column) },
      { name: 'before', kind: 'text', cell: ({ before }) => displayValue(before) },
      {
        name: 'after',
        kind: 'text',
        cell: ({ after, undone }) => (undone ? html`<s>${displayValue(after)}</s>` : displayValue(after)),
      },
    ],
    cells,
    { isCaptionShown: true },
  )
}
