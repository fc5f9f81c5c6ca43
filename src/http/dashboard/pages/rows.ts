import { FAILURE_STATES, FAILURE_ADVICE, ROW_STATES, formatState } from '../../../domain/row.ts'
import type { LookupKind } from '../../../domain/identifiers/kind.ts'
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
import { retryLink } from './failures.ts'
import { buildUrl, html, rowUrl, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
import { parseRowQuery, readRowPage, type RowPage, type RowSearch, toRowQuery } from './row-search.ts'

/** The rows that match a filter. */
export const rowsPage: Page = {
  path: '/rows',
  name: 'Rows',
  show: async ({ query, canAct }, { db }) => {
    const search = parseRowQuery(query)
    const page = await readRowPage(db, search)
    return { search: search.text ?? '', body: rowsBody(page, canAct, Date.now()) }
  },
}

function rowsBody(page: RowPage, canAct: boolean, now: number): Html {
  const { search, rows } = page
  const { source, state, reason } = search.filter
  const failure = FAILURE_STATES.find((one) => one === state)
  const isRetryable = failure !== undefined && search.filter.run === null && search.text === null
  const actions =
    canAct &&
    isRetryable &&
    (rows ?? []).length > 0 &&
    html`<p class="actions">${retryLink([{ state: failure }], { source, state, reason })}</p>`
  return html`${pageHead('Rows', actions)} ${filterForm(page)} ${reasonNote(search)}
    <section class="card" aria-label="Rows">
      ${
        rows === null
          ? html`<p class="fault">
              Sorting that many rows by time takes too long. Choose a source, a state, a run or days, or sort
              by key.
            </p>`
          : rows.length === 0
            ? empty(
                isNarrowed(search)
                  ? html`No row matches. <a href="/rows">All rows</a>`
                  : 'No rows picked yet. A run picks the rows of its sources, and lists them here.',
              )
            : [summary(page), rowsTable(rows, search, now), pager(page)]
      }
    </section>`
}

const isNarrowed = ({ text, filter }: RowSearch): boolean =>
  [text, filter.source, filter.state, filter.reason, filter.run, filter.from, filter.to].some(
    (one) => one !== null,
  )

function filterForm({ search: { text, filter, sort }, sources }: RowPage): Html {
  const states = [
    ['', 'any'],
    ['not_enriched', 'not enriched (any)'],
    ...ROW_STATES.map((state) => [state, formatState(state)] as const),
  ] as const
  return html`<form class="filters card" action="/rows" aria-label="Filter">
    <label class="grow"
      >Search
      <input
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
    <label>From <input name="from" type="date" value="${filter.from}" /></label>
    <label>To <input name="to" type="date" value="${filter.to}" /></label>
    ${selectField('sort', 'Sort by', sort, [
      ['key', 'key'],
      ['newest', 'newest first'],
      ['oldest', 'oldest first'],
    ])}
    <input type="hidden" name="tz" value="${filter.timezone}" />
    ${filter.reason !== null && html`<input type="hidden" name="reason" value="${filter.reason}" />`}
    <div class="form-actions"><button>Show</button> <a href="/rows">Clear</a></div>
  </form>`
}

/** The reason that is filtered by, which has no field of its own, and what to do about rows in this state. */
function reasonNote(search: RowSearch): HtmlPart {
  const { reason, state } = search.filter
  const failure = FAILURE_STATES.find((one) => one === state)
  if (reason === null && failure === undefined) return null
  return html`<p class="note">
    ${
      reason !== null &&
      html`Only rows with the reason <strong>${reason === '' ? 'none given' : reason}</strong> (<a
          href="${buildUrl('/rows', { ...toRowQuery(search), reason: null })}"
          >any reason</a
        >). `
    }
    ${failure !== undefined && html`${stateBadge(failure)} ${withCode(FAILURE_ADVICE[failure])}.`}
  </p>`
}

function summary({ rows, total, search: { filter } }: RowPage): Html {
  return html`<p class="sub">
    ${total === null ? `${pluralize(rows?.length ?? 0, 'row')} on this page` : pluralize(total, 'row')}${
      (filter.from !== null || filter.to !== null) && `; days in ${filter.timezone}`
    }
  </p>`
}

const KIND_LABELS: Readonly<Record<LookupKind, string>> = {
  email: 'e-mail',
  linkedin_url: 'profile',
  name_company: 'name and company',
  domain: 'domain',
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
      {
        name: 'looked up by',
        cell: ({ lookupKind, lookupKey }) =>
          lookupKey === null
            ? null
            : html`<span title="${lookupKind === null ? '' : KIND_LABELS[lookupKind]}"
                >${nameText(lookupKey)}</span
              >`,
      },
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

function pager({ search, rows, hasBefore, hasAfter }: RowPage): HtmlPart {
  const query = toRowQuery(search)
  const place = (row: FoundRow | undefined): string =>
    row === undefined ? '' : JSON.stringify([row.cursor.at, row.source, row.key])
  return pageLinks(
    hasBefore ? buildUrl('/rows', { ...query, before: place(rows?.[0]) }) : null,
    hasAfter ? buildUrl('/rows', { ...query, after: place(rows?.at(-1)) }) : null,
  )
}
