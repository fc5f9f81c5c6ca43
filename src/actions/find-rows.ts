import { normalizeDomain } from '../domain/identifiers/domain.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'
import type { Database } from '../store/open.ts'
import {
  type FoundRow,
  type RowCursor,
  type RowFilter,
  type RowIdentity,
  type RowSort,
  searchRows,
} from '../store/row-search.ts'

/** What a text that a user searches for may be: a row's key, an email address, a profile URL or a domain. */
export function parseRowIdentity(text: string): RowIdentity {
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

const EXPORT_PAGE_ROWS = 5_000

/** All rows that match, in order, page by page: a million rows are never in memory at once. */
export async function* iterateRows(
  db: Database,
  filter: RowFilter,
  sort: RowSort,
): AsyncGenerator<FoundRow[]> {
  let cursor: RowCursor | null = null
  while (true) {
    const page: FoundRow[] = await searchRows(db, filter, {
      sort,
      cursor,
      direction: 'after',
      limit: EXPORT_PAGE_ROWS,
    })
    if (page.length > 0) yield page
    cursor = page.at(-1)?.cursor ?? null
    if (page.length < EXPORT_PAGE_ROWS) return
  }
}
