import { FAILURE_STATES, FAILURE_ADVICE, ROW_STATES, formatState } from '../../../domain/row.ts'
import type { LookupKind } from '../../../domain/identifiers/kind.ts'
import {
  ROW_SORTS,
  type FoundRow,
  type RowCursor,
  type RowFilter,
  type RowSort,
} from '../../../store/row-search.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import {
  clamped,
  dataTable,
  empty,
  pageHead,
  stateBadge,
  timeAgo,
  withCode,
  nameText,
} from '../components.ts'
import { retryLink } from './failures.ts'
import { buildUrl, html, rowUrl, type Html, type HtmlPart } from '../html.ts'

export const ROWS_PAGE_SIZE = 50

/** The query of the rows page; any field may be missing or wrong. */
export type RowQuery = Readonly<
  Partial<
    Record<
      'q' | 'source' | 'state' | 'reason' | 'run' | 'from' | 'to' | 'tz' | 'sort' | 'after' | 'before',
      string
    >
  >
>

/** What the page shows: the filter in the form of its query, and where in the order it is. */
export interface RowSearch {
  readonly text: string | null
  readonly filter: Omit<RowFilter, 'identity'>
  /** Null: the latest first, unless that takes too long. */
  readonly sort: RowSort | null
  readonly cursor: RowCursor | null
  readonly direction: 'after' | 'before'
}

/** Reads a query. What is not valid counts as not given. Pure. */
export function parseRowQuery(query: RowQuery): RowSearch {
  const given = (name: keyof RowQuery): string | null => query[name]?.trim() || null
  const run = Number(given('run'))
  const before = parseCursor(query.before)
  return {
    text: given('q'),
    filter: {
      source: given('source'),
      state: [...ROW_STATES, 'not_enriched' as const].find((one) => one === query.state) ?? null,
      // A reason may be empty: rows without one.
      reason: query.reason ?? null,
      run: Number.isSafeInteger(run) && run > 0 ? run : null,
      from: parseDay(given('from')),
      to: parseDay(given('to')),
      timezone: isTimeZone(given('tz')) ? (given('tz') ?? 'UTC') : 'UTC',
    },
    sort: ROW_SORTS.find((one) => one === query.sort) ?? null,
    cursor: before ?? parseCursor(query.after),
    direction: before === null ? 'after' : 'before',
  }
}

const parseDay = (text: string | null): string | null =>
  text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : null

function isTimeZone(name: string | null): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name ?? '' }).format(0)
    return name !== null
  } catch {
    return false
  }
}

function parseCursor(text: string | undefined): RowCursor | null {
  try {
    const [at, source, key] = JSON.parse(text ?? '') as unknown[]
    const isCursor =
      typeof at === 'string' &&
      !Number.isNaN(Date.parse(at)) &&
      typeof source === 'string' &&
      typeof key === 'string'
    return isCursor ? { at, source, key } : null
  } catch {
    return null
  }
}

/** The query of a search, without its place in the order. */
export function toRowQuery({ text, filter, sort }: RowSearch): Record<string, string | null> {
  return {
    q: text,
    source: filter.source,
    state: filter.state,
    reason: filter.reason,
    run: filter.run === null ? null : String(filter.run),
    from: filter.from,
    to: filter.to,
    tz: filter.timezone === 'UTC' ? null : filter.timezone,
    sort,
  }
}

export interface RowsPageData {
  readonly search: RowSearch
  readonly sources: readonly string[]
  /** One page, in order; null: the search took too long. */
  readonly rows: readonly FoundRow[] | null
  readonly hasBefore: boolean
  readonly hasAfter: boolean
  /** How many rows match; null: not counted. */
  readonly total: number | null
  readonly now: number
  /** Whether the page offers actions. */
  readonly canAct: boolean
}

/** The rows that match a filter. */
export function rowsPage(data: RowsPageData): Html {
  const { search, rows } = data
  const query = toRowQuery(search)
  const { source, state, reason } = search.filter
  const failure = FAILURE_STATES.find((one) => one === state)
  const isRetryable = failure !== undefined && search.filter.run === null && search.text === null
  const actions = html`<p class="actions">
    ${data.canAct && isRetryable && (rows ?? []).length > 0 && retryLink([{ state: failure }], { source, state, reason })}
    <a class="button" href="${buildUrl('/rows.csv', query)}" download>Download CSV</a>
  </p>`
  return html`${pageHead('Rows', actions)} ${filterForm(data)} ${reasonNote(search)}
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
            : [summary(data), rowsTable(rows, search, data.now), pager(data)]
      }
    </section>`
}

const isNarrowed = ({ text, filter }: RowSearch): boolean =>
  [text, filter.source, filter.state, filter.reason, filter.run, filter.from, filter.to].some(
    (one) => one !== null,
  )

function filterForm({ search: { text, filter, sort }, sources }: RowsPageData): Html {
  const choice = (
    name: string,
    label: string,
    chosen: string | null,
    options: ReadonlyArray<readonly [string, string]>,
  ) =>
    html`<label
      >${label}
      <select name="${name}">
        ${options.map(([value, shown]) => html`<option value="${value}" ${value === (chosen ?? '') && html` selected`}>${shown}</option>`)}
      </select></label
    >`
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
    ${choice('source', 'Source', filter.source, [['', 'all'], ...sources.map((name) => [name, name] as const)])}
    ${choice('state', 'State', filter.state, states)}
    <label class="narrow"
      >Run <input name="run" inputmode="numeric" pattern="[0-9]*" value="${filter.run}"
    /></label>
    <label>From <input name="from" type="date" value="${filter.from}" /></label>
    <label>To <input name="to" type="date" value="${filter.to}" /></label>
    ${choice('sort', 'Sort by', sort, [
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

function summary({ rows, total, search: { filter } }: RowsPageData): Html {
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

function pager({ search, rows, hasBefore, hasAfter }: RowsPageData): HtmlPart {
  const query = toRowQuery(search)
  const place = (row: FoundRow | undefined): string =>
    row === undefined ? '' : JSON.stringify([row.cursor.at, row.source, row.key])
  return pageLinks(
    hasBefore ? buildUrl('/rows', { ...query, before: place(rows?.[0]) }) : null,
    hasAfter ? buildUrl('/rows', { ...query, after: place(rows?.at(-1)) }) : null,
  )
}

/** Links to the page before and the page after; null: there is none. */
export const pageLinks = (before: string | null, after: string | null): HtmlPart =>
  (before !== null || after !== null) &&
  html`<p class="pager">
    ${before !== null && html`<a rel="prev" href="${before}">← Previous</a>`}
    ${after !== null && html`<a rel="next" href="${after}">Next →</a>`}
  </p>`
