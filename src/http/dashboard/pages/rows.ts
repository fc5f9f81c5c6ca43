import type { ColumnState, ExplainedField, RowChange, RowHistory } from '../../../domain/report/explain.ts'
import {
  normalizeDomain,
  normalizeEmail,
  normalizeProfileUrl,
} from '../../../domain/identifiers/addresses.ts'
import type { Database } from '../../../store/open.ts'
import {
  searchRows,
  type FoundRow,
  type FoundRows,
  type RowFilter,
  type SearchedIdentity,
  type RowPlace,
} from '../../../store/row-search.ts'
import { listSourceNames } from '../../../store/rows.ts'
import {
  clamped,
  dataTable,
  empty,
  nameText,
  pageHead,
  pageLinks,
  selectField,
  stateBadge,
  timeAgo,
  withCode,
  breakable,
  card,
  definitionList,
} from '../components.ts'
import {
  FAILURE_STATES,
  FAILURE_ADVICE,
  ROW_STATES,
  formatState,
  Row,
  type RowState,
} from '../../../domain/row.ts'
import { toSentenceCase } from '../../../util/text.ts'
import { buildUrl, html, rowUrl, sourceUrl, type Markup, type HtmlPart } from '../html.ts'
import { missing, type Page } from '../page.ts'
import { reasonsCard, retryLink } from './reasons.ts'
import { ConfigProblems } from '../../../config/problems.ts'
import {
  describeChange,
  describeOrigin,
  listLookupFacts,
  listRowNotes,
} from '../../../actions/explain/words.ts'
import { requireApp } from '../actions/action.ts'

/** Rows by key, e-mail and the like, and by the reason why they are not enriched. */
export const rowsPage: Page = {
  path: '/rows',
  name: 'Rows',
  show: async ({ query, canAct }, { db, readReasons }) => {
    const search = parseRowQuery(query)
    const { source, state } = search.filter
    const page = await readRowPage(db, search)
    // Of one row, one run or one reason, only the rows are shown.
    const isByReason =
      search.after === null &&
      [search.text, search.filter.run, search.filter.reason].every((value) => value === null)
    const reasons = isByReason
      ? (await readReasons()).filter(
          (reason) => (source ?? reason.source) === reason.source && isIn(reason.state, state),
        )
      : []
    return {
      body: html`${pageHead('Rows')} ${filterForm(page)} ${reasonNote(search, canAct)}
      ${reasons.length > 0 && reasonsCard(reasons, source, canAct)} ${rowsCard(page, Date.now())}`,
    }
  },
}

const isIn = (state: string, wanted: RowSearch['filter']['state']): boolean =>
  wanted === null || wanted === 'not_enriched' || wanted === state

function rowsCard(page: RowPage, now: number): Markup {
  const { rows, search, next } = page
  return html`<section id="rows" class="card" aria-label="Rows">
    ${
      rows.length > 0
        ? rowsTable(rows, search, now)
        : next !== null
          ? empty('None of the rows that were read for this page matches. The next page reads on.')
          : searchUrl(search) !== '/rows'
            ? empty(html`No row matches. <a href="/rows">All rows</a>`)
            : empty('No rows picked yet. A run picks the rows of its sources, and lists them here.')
    }
    ${pageLinks(null, next && nextUrl(search, next))}
  </section>`
}

function filterForm({ search: { text, filter }, sources }: RowPage): Markup {
  const states = [
    ['', 'any'],
    ['not_enriched', 'not enriched (any)'],
    ...ROW_STATES.map((state) => [state, formatState(state)] as const),
  ] as const
  return html`<form class="filters card" action="/rows" aria-label="Filter">
    <label class="grow"
      >Search
      <input
        id="find"
        name="q"
        type="search"
        placeholder="e-mail, domain or key"
        value="${text ?? ''}"
        autocomplete="off"
        spellcheck="false"
    /></label>
    ${selectField('source', 'Source', filter.source, [['', 'all'], ...sources.map((name) => [name, name] as const)])}
    ${selectField('state', 'State', filter.state, states)}
    <label class="narrow"
      >Run <input name="run" inputmode="numeric" pattern="[0-9]*" value="${filter.run}"
    /></label>
    ${filter.reason !== null && html`<input type="hidden" name="reason" value="${filter.reason}" />`}
    <div class="form-actions"><button>Show</button> <a href="/rows">Clear</a></div>
  </form>`
}

/** The reason that is filtered by, which has no field of its own, and what to do about rows in this state. */
function reasonNote(search: RowSearch, canAct: boolean): HtmlPart {
  const { reason, state, source, run } = search.filter
  const failure = FAILURE_STATES.find((name) => name === state)
  if (reason === null && failure === undefined) return null
  return html`<p class="note">
    ${
      reason !== null &&
      html`Only rows with the reason <strong>${reason === '' ? 'none given' : reason}</strong> (<a
          href="${searchUrl({ ...search, filter: { ...search.filter, reason: null } })}"
          >any reason</a
        >). `
    }
    ${failure !== undefined && html`${stateBadge(failure)} ${withCode(FAILURE_ADVICE[failure])}.`}
    ${canAct && failure !== undefined && run === null && search.text === null && retryLink([{ state: failure }], { source, state, reason })}
  </p>`
}

const rowsTable = (rows: readonly FoundRow[], { filter }: RowSearch, now: number): Markup =>
  dataTable<FoundRow>(
    'Rows',
    [
      { name: 'key', kind: 'row', cell: (row) => html`<a href="${rowUrl(row)}">${nameText(row.key)}</a>` },
      filter.source === null && {
        name: 'source',
        cell: (row) => nameText(row.source),
      },
      { name: 'looked up by', cell: ({ lookupKey }) => lookupKey !== null && nameText(lookupKey) },
      { name: 'state', cell: (row) => stateBadge(row.state) },
      { name: 'reason', kind: 'text', cell: (row) => clamped(row.reason) },
      { name: 'run', cell: (row) => row.run !== null && html`<a href="/runs/${row.run}">${row.run}</a>` },
      { name: 'when', cell: (row) => timeAgo(row.at, now) },
    ],
    rows,
  )

/** What the page shows: the filter in the form of its query, and where in the order it is. */
interface RowSearch {
  readonly text: string | null
  readonly filter: Omit<RowFilter, 'identity'>
  /** Where the page before has ended; null: the first page. */
  readonly after: RowPlace | null
}

/** Reads a query. What is not valid counts as not given. Pure. */
function parseRowQuery(query: URLSearchParams): RowSearch {
  const given = (name: string): string | null => query.get(name)?.trim() || null
  const run = Number(given('run'))
  const [source, key, state = ''] = query.getAll('after')
  return {
    text: given('q'),
    filter: {
      source: given('source'),
      state: [...ROW_STATES, 'not_enriched' as const].find((state) => state === query.get('state')) ?? null,
      // A reason may be empty: rows without one.
      reason: query.get('reason'),
      run: Number.isSafeInteger(run) && run > 0 ? run : null,
    },
    after: source === undefined || key === undefined ? null : { source, key, state: state as RowState },
  }
}

/** The address of the first page of a search. */
const searchUrl = ({ text, filter }: RowSearch): string =>
  buildUrl('/rows', { ...filter, q: text, run: filter.run === null ? null : String(filter.run) })

/** The address of the page that goes on from a place. */
function nextUrl(search: RowSearch, { source, key, state }: RowPlace): string {
  const after = new URLSearchParams([source, key, state].map((part): [string, string] => ['after', part]))
  const first = searchUrl(search)
  return `${first}${first.includes('?') ? '&' : '?'}${after}`
}

/** What a text that a user searches for may be: a row's key, an email address, a profile URL or a domain. */
function parseRowIdentity(key: string): SearchedIdentity {
  const inputs = [
    ['email', normalizeEmail(key)],
    ['linkedin_url', normalizeProfileUrl(key)],
    ['domain', normalizeDomain(key)],
  ] as const
  return {
    key,
    lookups: inputs.flatMap(([kind, input]) => (input?.ok === true ? [{ kind, key: input.key }] : [])),
  }
}

const ROWS_PER_PAGE = 50

/** Rows that are read for a page, whether they match or not. Who goes on looks for what is rare. */
const READ_FIRST = 5_000
const READ_FURTHER = 50_000

/** One page of what a search finds. */
interface RowPage extends FoundRows {
  readonly search: RowSearch
  readonly sources: readonly string[]
}

async function readRowPage(db: Database, search: RowSearch): Promise<RowPage> {
  const { text, filter, after } = search
  const sources = await listSourceNames(db)
  const identity = text === null ? null : parseRowIdentity(text)
  const most = after === null ? READ_FIRST : READ_FURTHER
  const found = await searchRows(db, { ...filter, identity }, { after, limit: ROWS_PER_PAGE, most })
  return { ...found, search, sources }
}

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

function rowBody(history: RowHistory, now: number): Markup {
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

const inputsList = ({ inputs, filled_inputs: filled }: RowHistory['row']): Markup =>
  definitionList([
    ...Object.entries(inputs).map(([name, given]) => [`input ${name}`, displayValue(given)] as const),
    ...Object.entries(filled).map(
      ([name, given]) => [`input ${name}`, [displayValue(given), ' (filled by Fillrate: not used)']] as const,
    ),
  ])

const columnsTable = (columns: readonly ColumnState[], source: string): Markup =>
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

const lookupFields = (history: RowHistory, now: number): Markup =>
  definitionList(
    listLookupFacts(history, now).map(([label, text, more]) => [
      label,
      [breakable(text), more !== undefined && html`<br /><span class="soft">${withCode(more)}</span>`],
    ]),
  )

const fieldsTable = (fields: readonly ExplainedField[]): Markup =>
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

const changeTable = (change: RowChange, now: number): Markup =>
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
