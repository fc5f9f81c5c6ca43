import { normalizeDomain } from '../../../domain/identifiers/domain.ts'
import { normalizeEmail } from '../../../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../../domain/identifiers/profile-url.ts'
import { FAILURE_STATES, ROW_STATES } from '../../../domain/row.ts'
import type { Database } from '../../../store/open.ts'
import {
  type FoundRow,
  type RowCursor,
  type RowFilter,
  type RowIdentity,
  type RowSort,
  searchRows,
} from '../../../store/row-search.ts'
import { countRowStates, listSourceNames } from '../../../store/rows.ts'
import { countRows } from '../row-states.ts'

/** What the page shows: the filter in the form of its query, and where in the order it is. */
export interface RowSearch {
  readonly text: string | null
  readonly filter: Omit<RowFilter, 'identity'>
  /** Null: the latest first, unless that takes too long. Further pages have the order of the first. */
  readonly sort: RowSort | null
  /** The last row of the page before. */
  readonly cursor: RowCursor | null
}

/** Reads a query. What is not valid counts as not given. Pure. */
export function parseRowQuery(query: URLSearchParams): RowSearch {
  const given = (name: string): string | null => query.get(name)?.trim() || null
  const run = Number(given('run'))
  return {
    text: given('q'),
    filter: {
      source: given('source'),
      state: [...ROW_STATES, 'not_enriched' as const].find((one) => one === query.get('state')) ?? null,
      // A reason may be empty: rows without one.
      reason: query.get('reason'),
      run: Number.isSafeInteger(run) && run > 0 ? run : null,
    },
    sort: (['key', 'newest'] as const).find((one) => one === query.get('sort')) ?? null,
    cursor: parseCursor(query.get('after')),
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
  /** The last row, if there are more; null: there are none. */
  readonly last: FoundRow | null
  /** How many rows match; null: not counted. */
  readonly total: number | null
}

/** Of more rows than these, Postgres takes seconds to find the latest: they open by key. */
const MAX_SORTED_ROWS = 300_000

/** SQLSTATE of a statement that was cancelled at its timeout. */
const CANCELLED = '57014'

export async function readRowPage(db: Database, search: RowSearch): Promise<RowPage> {
  const { cursor } = search
  const sources = await listSourceNames(db)
  const total = await countMatches(db, search, sources)
  const find = (sort: RowSort): Promise<FoundRow[] | null> =>
    // One more, to see whether there are more.
    searchRows(db, toRowFilter(search), { sort, cursor, limit: PAGE_SIZE + 1 }).catch((error: unknown) => {
      if ((error as { code?: string }).code !== CANCELLED) throw error
      return null
    })
  let sort = search.sort ?? ((total ?? 0) > MAX_SORTED_ROWS ? 'key' : 'newest')
  let found = await find(sort)
  if (found === null && search.sort === null) found = await find((sort = 'key'))
  const rows = found && found.slice(0, PAGE_SIZE)
  return {
    search: { ...search, sort },
    sources,
    rows,
    last: (found?.length ?? 0) > PAGE_SIZE ? (rows?.at(-1) ?? null) : null,
    total,
  }
}

/** The number of matches where it is kept; null where it would have to be counted. */
async function countMatches(
  db: Database,
  { text, filter }: RowSearch,
  sources: readonly string[],
): Promise<number | null> {
  const { source, state, reason, run } = filter
  if ([text, reason, run].some((one) => one !== null)) return null
  const counts = await countRowStates(db, { sources: source === null ? sources : [source] })
  return countRows(counts, state === null ? ROW_STATES : state === 'not_enriched' ? FAILURE_STATES : [state])
}
