import { FAILURE_STATES, FAILURE_ADVICE, ROW_STATES, formatState } from '../../../domain/row.ts'
import type { FoundRow } from '../../../store/row-search.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
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
} from '../components.ts'
import { html, rowUrl, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
import { reasonsCard, retryLink } from './reasons.ts'
import {
  nextUrl,
  ROWS_PER_PAGE,
  parseRowQuery,
  readRowPage,
  type RowPage,
  type RowSearch,
  searchUrl,
} from './row-search.ts'

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
      [search.text, search.filter.run, search.filter.reason].every((one) => one === null)
    const reasons = isByReason
      ? (await readReasons()).filter((one) => (source ?? one.source) === one.source && isIn(one.state, state))
      : []
    return {
      body: html`${pageHead('Rows')} ${filterForm(page)} ${reasonNote(search, canAct)}
      ${reasons.length > 0 && reasonsCard(reasons, source, canAct)} ${rowsCard(page, Date.now())}`,
    }
  },
}

const isIn = (state: string, wanted: RowSearch['filter']['state']): boolean =>
  wanted === null || wanted === 'not_enriched' || wanted === state

function rowsCard(page: RowPage, now: number): Html {
  const { rows, search, next } = page
  return html`<section id="rows" class="card" aria-label="Rows">
    ${
      rows.length > 0
        ? [summary(page), rowsTable(rows, search, now)]
        : next !== null
          ? empty('None of the rows that were read for this page matches. The next page reads on.')
          : searchUrl(search) !== '/rows'
            ? empty(html`No row matches. <a href="/rows">All rows</a>`)
            : empty('No rows picked yet. A run picks the rows of its sources, and lists them here.')
    }
    ${pageLinks(null, next && nextUrl(search, next))}
  </section>`
}

function filterForm({ search: { text, filter }, sources }: RowPage): Html {
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
  const failure = FAILURE_STATES.find((one) => one === state)
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

/** How many rows match, and where it is not known, or not all of them were found here, how many are on the page. */
function summary({ rows, total, next }: RowPage): Html {
  const isSparse = next !== null && rows.length < ROWS_PER_PAGE
  const shown = (total === null || isSparse) && `${pluralize(rows.length, 'row')} on this page`
  return html`<p class="sub">${shown} ${total !== null && `${pluralize(total, 'row')} in all`}</p>`
}

const rowsTable = (rows: readonly FoundRow[], { filter }: RowSearch, now: number): Html =>
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
      {
        name: 'cells',
        kind: 'number',
        cell: (row) => (row.cellsWritten === 0 ? null : formatCount(row.cellsWritten)),
      },
      { name: 'run', cell: (row) => row.run !== null && html`<a href="/runs/${row.run}">${row.run}</a>` },
      { name: 'when', cell: (row) => timeAgo(row.at, now) },
      { name: 'due again', cell: (row) => row.dueAt && timeAgo(row.dueAt, now) },
    ],
    rows,
  )
