import { normalizeDomain } from '../../../domain/identifiers/domain.ts'
import { normalizeEmail } from '../../../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../../domain/identifiers/profile-url.ts'
import { FAILURE_STATES, ROW_STATES, type RowState } from '../../../domain/row.ts'
import type { Database } from '../../../store/open.ts'
import {
  type FoundRows,
  type RowFilter,
  type RowIdentity,
  type RowPlace,
  searchRows,
} from '../../../store/row-search.ts'
import { countRowStates, listSourceNames } from '../../../store/rows.ts'
import { buildUrl } from '../html.ts'
import { countRows } from '../row-states.ts'

/** What the page shows: the filter in the form of its query, and where in the order it is. */
export interface RowSearch {
  readonly text: string | null
  readonly filter: Omit<RowFilter, 'identity'>
  /** Where the page before has ended; null: the first page. */
  readonly after: RowPlace | null
}

/** Reads a query. What is not valid counts as not given. Pure. */
export function parseRowQuery(query: URLSearchParams): RowSearch {
  const given = (name: string): string | null => query.get(name)?.trim() || null
  const run = Number(given('run'))
  const [source, key, state = ''] = query.getAll('after')
  return {
    text: given('q'),
    filter: {
      source: given('source'),
      state: [...ROW_STATES, 'not_enriched' as const].find((one) => one === query.get('state')) ?? null,
      // A reason may be empty: rows without one.
      reason: query.get('reason'),
      run: Number.isSafeInteger(run) && run > 0 ? run : null,
    },
    after: source === undefined || key === undefined ? null : { source, key, state: state as RowState },
  }
}

/** The address of the first page of a search. */
export const searchUrl = ({ text, filter }: RowSearch): string =>
  buildUrl('/rows', { ...filter, q: text, run: filter.run === null ? null : String(filter.run) })

/** The address of the page that goes on from a place. */
export function nextUrl(search: RowSearch, { source, key, state }: RowPlace): string {
  const after = new URLSearchParams([source, key, state].map((one): [string, string] => ['after', one]))
  const first = searchUrl(search)
  return `${first}${first.includes('?') ? '&' : '?'}${after}`
}

/** What a text that a user searches for may be: a row's key, an email address, a profile URL or a domain. */
function parseRowIdentity(key: string): RowIdentity {
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

export const ROWS_PER_PAGE = 50

/** Rows that are read for a page, whether they match or not. Who goes on looks for what is rare. */
const READ_FIRST = 5_000
const READ_FURTHER = 50_000

/** One page of what a search finds. */
export interface RowPage extends FoundRows {
  readonly search: RowSearch
  readonly sources: readonly string[]
  /** How many rows match; null: not counted. */
  readonly total: number | null
}

export async function readRowPage(db: Database, search: RowSearch): Promise<RowPage> {
  const { text, filter, after } = search
  const sources = await listSourceNames(db)
  const total = await countMatches(db, search, sources)
  const identity = text === null ? null : parseRowIdentity(text)
  const most = after === null ? READ_FIRST : READ_FURTHER
  const found = await searchRows(db, { ...filter, identity }, { after, limit: ROWS_PER_PAGE, most })
  return { ...found, search, sources, total }
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
