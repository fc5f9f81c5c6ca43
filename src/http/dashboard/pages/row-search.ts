import { normalizeDomain } from '../../../domain/identifiers/domain.ts'
import { normalizeEmail } from '../../../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../../domain/identifiers/profile-url.ts'
import { FAILURE_STATES, ROW_STATES } from '../../../domain/row.ts'
import type { Database } from '../../../store/open.ts'
import {
  ROW_SORTS,
  type FoundRow,
  type RowCursor,
  type RowFilter,
  type RowIdentity,
  type RowSort,
  searchRows,
} from '../../../store/row-search.ts'
import { countRowStates, listSourceNames } from '../../../store/rows.ts'
import { countRows } from '../funnel.ts'

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
export function parseRowQuery(query: URLSearchParams): RowSearch {
  const given = (name: string): string | null => query.get(name)?.trim() || null
  const run = Number(given('run'))
  const before = parseCursor(query.get('before'))
  return {
    text: given('q'),
    filter: {
      source: given('source'),
      state: [...ROW_STATES, 'not_enriched' as const].find((one) => one === query.get('state')) ?? null,
      // A reason may be empty: rows without one.
      reason: query.get('reason'),
      run: Number.isSafeInteger(run) && run > 0 ? run : null,
      from: parseDay(given('from')),
      to: parseDay(given('to')),
      timezone: isTimeZone(given('tz')) ? (given('tz') ?? 'UTC') : 'UTC',
    },
    sort: ROW_SORTS.find((one) => one === query.get('sort')) ?? null,
    cursor: before ?? parseCursor(query.get('after')),
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

function parseCursor(text: string | null): RowCursor | null {
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

const toRowFilter = ({ text, filter }: RowSearch): RowFilter => ({
  ...filter,
  identity: text === null ? null : parseRowIdentity(text),
})

/** What a text that a user searches for may be: a row's key, an email address, a profile URL or a domain. */
function parseRowIdentity(text: string): RowIdentity {
  const key = text.trim()
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

const PAGE_SIZE = 50

/** One page of what a search finds. */
export interface RowPage {
  /** With the sort that was chosen. */
  readonly search: RowSearch
  readonly sources: readonly string[]
  /** In order; null: the search took too long. */
  readonly rows: readonly FoundRow[] | null
  readonly hasBefore: boolean
  readonly hasAfter: boolean
  /** How many rows match; null: not counted. */
  readonly total: number | null
}

/** Of more rows than these, Postgres takes seconds to find the latest: they open by key. */
const MAX_SORTED_ROWS = 300_000

/** SQLSTATE of a statement that was cancelled at its timeout. */
const CANCELLED = '57014'

export async function readRowPage(db: Database, search: RowSearch): Promise<RowPage> {
  const { cursor, direction } = search
  const sources = await listSourceNames(db)
  const total = await countMatches(db, search, sources)
  const find = (sort: RowSort): Promise<FoundRow[] | null> =>
    // One more, to see whether there are more.
    searchRows(db, toRowFilter(search), { sort, cursor, direction, limit: PAGE_SIZE + 1 }).catch(
      (error: unknown) => {
        if ((error as { code?: string }).code !== CANCELLED) throw error
        return null
      },
    )
  let sort = search.sort ?? ((total ?? 0) > MAX_SORTED_ROWS ? 'key' : 'newest')
  let found = await find(sort)
  if (found === null && search.sort === null) found = await find((sort = 'key'))
  const hasExtra = (found?.length ?? 0) > PAGE_SIZE
  const isBackward = direction === 'before'
  return {
    search: { ...search, sort },
    sources,
    rows: found && (isBackward ? found.slice(-PAGE_SIZE) : found.slice(0, PAGE_SIZE)),
    hasBefore: isBackward ? hasExtra : cursor !== null,
    hasAfter: isBackward || hasExtra,
    total,
  }
}

/** The number of matches where it is kept; null where it would have to be counted. */
async function countMatches(
  db: Database,
  { text, filter }: RowSearch,
  sources: readonly string[],
): Promise<number | null> {
  const { source, state, reason, run, from, to } = filter
  if ([text, reason, run, from, to].some((one) => one !== null)) return null
  const counts = await countRowStates(db, { sources: source === null ? sources : [source] })
  return countRows(counts, state === null ? ROW_STATES : state === 'not_enriched' ? FAILURE_STATES : [state])
}
