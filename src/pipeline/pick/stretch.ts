import { pageEndQuery } from '../../sources/page.ts'
import type { Source } from '../../sources/source-model.ts'
import { inTransaction, withTableTimeouts } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { type Disposition, readCandidates, type ReadOptions, type ScannedPage } from './candidates.ts'
import { FEW_CANDIDATES, MAX_SCAN_PAGE } from './pass.ts'

/** Pages that are read at once: the second connection keeps Postgres busy between two statements of the first. */
const PAGES_AT_ONCE = 2
/** No further page is begun after this time, in milliseconds: candidates wait for the end of the stretch. */
const STRETCH_MS = 500
/** Nor once as many candidates are found. */
const ENOUGH_CANDIDATES = 2 * FEW_CANDIDATES

/** Whether pages of this size are read as a stretch: nothing bounds what is read, and next to nothing is to be picked. */
export const isStretch = (
  size: number,
  { limit, changedSince }: { readonly limit: number | null; readonly changedSince: Date | null },
): boolean => size === MAX_SCAN_PAGE && limit === null && changedSince === null

/**
 * Reads the next pages of a source of which next to nothing is to be picked. Each is read in a short transaction of its own;
 * the key that ends it is searched first, so that the next page can be read at the same time. The rows are claimed
 * afterwards, in few transactions: until then, as between the two statements of a page, a row may change or be taken by
 * another run, and claiming and writing back find out.
 * @throws what the first page fails with. A later page that fails ends the stretch before it.
 */
export async function readStretch(
  { db, policy: { sourceTimeoutMs } }: Pick<Deps, 'db' | 'policy'>,
  source: Source,
  options: ReadOptions,
): Promise<ScannedPage> {
  const until = performance.now() + STRETCH_MS
  const pages: ScannedPage[] = []
  const underWay: ReturnType<typeof startPage>[] = []
  let after = options.after
  let isStarted = false
  let isCut = false

  /** `end` is the key that ends the page, known before its rows; null: the page is the last one. */
  const startPage = (from: string | null) => {
    const end = Promise.withResolvers<string | null>()
    let found: string | null | undefined
    const page = inTransaction(
      db,
      (tx) =>
        withTableTimeouts(tx, sourceTimeoutMs, async () => {
          const bounds = { ...options, after: from, limit: options.size }
          found ??= (await pageEndQuery(source, bounds).execute(tx)).rows[0]?.key ?? null
          end.resolve(found)
          return readCandidates(tx, source, { ...bounds, until: found ?? options.until ?? null })
        }),
      sourceTimeoutMs,
    )
    page.catch(end.reject)
    return { end: end.promise, page }
  }
  const isEnough = (): boolean =>
    performance.now() > until ||
    pages.reduce((sum, { candidates }) => sum + candidates.length, 0) >= ENOUGH_CANDIDATES ||
    densest(pages) > FEW_CANDIDATES

  try {
    for (;;) {
      while (!isStarted && underWay.length < PAGES_AT_ONCE && (pages.length === 0 || !isEnough())) {
        const started = startPage(after)
        underWay.push(started)
        // If it cannot be found, the page fails in its turn.
        after = await started.end.catch(() => null)
        isStarted = after === null
      }
      const [first] = underWay
      if (first === undefined || isCut) break
      const [end, page] = await Promise.all([first.end, first.page])
      underWay.shift()
      // More rows than when its end was searched: the rest of them comes next.
      isCut = page.next !== null && page.next !== end
      pages.push(isCut ? page : { ...page, next: end })
    }
  } catch (error) {
    if (pages.length === 0) throw error
  } finally {
    await Promise.allSettled(underWay.map(({ page }) => page))
  }
  return joinPages(pages)
}

const densest = (pages: readonly ScannedPage[]): number =>
  Math.max(0, ...pages.map(({ candidates }) => candidates.length))

function joinPages(pages: readonly ScannedPage[]): ScannedPage {
  const dispositions: Partial<Record<Disposition, number>> = {}
  for (const page of pages)
    for (const [disposition, rows] of Object.entries(page.dispositions) as [Disposition, number][])
      dispositions[disposition] = (dispositions[disposition] ?? 0) + rows
  const lastPage = pages.at(-1)
  const sum = (count: 'scanned' | 'known'): number => pages.reduce((total, page) => total + page[count], 0)
  return {
    candidates: pages.flatMap(({ candidates }) => candidates),
    dispositions,
    last: lastPage?.last ?? null,
    next: lastPage?.next ?? null,
    scanned: sum('scanned'),
    known: sum('known'),
    densest: densest(pages),
  }
}
