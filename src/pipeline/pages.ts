import { listItems } from '../domain/json.ts'
import { Delivery, INCOMPLETE_PAGES, isUsefulPage } from '../domain/job.ts'
import type { JobProgress } from '../domain/service/messages.ts'
import { insertDeliveries, takePages, type ReceivedDelivery } from '../store/deliveries.ts'
import * as jobs from '../store/job-polls.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { joinPages } from '../webhook/event.ts'
import type { Deps } from './deps.ts'
import { toFetchedDelivery, toPage } from './receive.ts'

// Results that come page by page. Each page is stored with the cursor of the next one, in one transaction, and the last one makes one
// delivery of them all: matched, billed and settled as if it had come at once. The order of results counts over all pages.

/** A job that was fetched, and is still awaited. */
interface FetchedJob {
  readonly job: jobs.PolledJob
  readonly reading: JobProgress
  /** When it is fetched next. */
  readonly pollAt: Date | null
}

/** Stores pages, and fetches their jobs at once again if these bring them further. A job whose results are complete begins anew. */
export async function storePages(
  tx: Tx,
  deps: Pick<Deps, 'now' | 'service'>,
  fetched: readonly FetchedJob[],
): Promise<void> {
  const pages = fetched.flatMap(({ job, reading, pollAt }) => {
    if (reading.outcome !== 'more') return []
    const { cursor, delivery } = reading
    const isUseful = isUsefulPage(
      { pages: job.pages, size: job.emails.length },
      listItems(delivery.results).length,
    )
    return [{ job, cursor, pollAt, page: isUseful ? toPage(job, delivery) : null }]
  })
  const stored = new Set(
    await insertDeliveries(
      tx,
      pages.flatMap(({ page }) => page ?? []),
      deps.service,
    ),
  )
  const advanced = pages.map(({ job, cursor, pollAt, page }) => {
    // One that was fetched before, with the same cursor, leads in a circle.
    const isFurther = page?.state === Delivery.partial && stored.has(page.contentForJob)
    return {
      id: job.id,
      cursor,
      pages: job.pages + Number(isFurther),
      pollAt: isFurther && pollAt !== null ? new Date(deps.now()) : pollAt,
    }
  })
  const ended = fetched.flatMap(({ job, reading, pollAt }) =>
    job.cursor !== null && reading.outcome === 'results'
      ? [{ id: job.id, cursor: null, pages: 0, pollAt }]
      : [],
  )
  await jobs.advancePages(tx, [...advanced, ...ended])
}

/** Nothing more comes of a job. */
export const isOver = ({ outcome }: JobProgress): boolean => outcome === 'gone' || outcome === 'unpaid'

/** The results of jobs, the pages that were stored before among them. What is left of a job that is gone is all that comes. */
export async function toDeliveries(tx: Tx, fetched: readonly FetchedJob[]): Promise<ReceivedDelivery[]> {
  const paged = fetched.filter(
    ({ job, reading }) => job.pages > 0 && (reading.outcome === 'results' || isOver(reading)),
  )
  const stored = await takePages(
    tx,
    paged.map(({ job }) => job.id),
  )
  return fetched.flatMap(({ job: { id, polls: nth }, reading }) => {
    const eventId = `fetched:${id}:${nth}`
    const pages = stored.get(id)?.bodies ?? []
    if (reading.outcome === 'results') {
      const { status = 'completed' } = reading.delivery
      const last = toFetchedDelivery(eventId, id, { delivery: { ...reading.delivery, status }, raw: null })
      if (pages.length === 0) return [last]
      // A last page that cannot be read is kept for inspection: what its inputs came to is not known.
      return last.body === null
        ? [last, joined(eventId, id, pages, 'failed')]
        : [joined(eventId, id, [...pages, last.body], status)]
    }
    return isOver(reading) && pages.length > 0 ? [joined(eventId, id, pages, 'failed')] : []
  })
}

/**
 * Makes deliveries of pages that nothing follows: the last one was not fetched before the deadline, or the results came otherwise. Inputs
 * without a result go on waiting.
 * @returns how many
 */
export function receiveLeftPages(db: Database, limit: number): Promise<number> {
  return inTransaction(db, async (tx) => {
    const taken = await takePages(tx, await jobs.lockJobsOfLeftPages(tx, limit))
    for (const [id, { bodies, service }] of taken)
      await insertDeliveries(tx, [joined(`fetched:${id}:pages`, id, bodies, INCOMPLETE_PAGES)], service)
    return taken.size
  })
}

const joined = (eventId: string, job: string, pages: readonly string[], status: unknown): ReceivedDelivery =>
  toFetchedDelivery(eventId, job, { delivery: { ...joinPages(pages), status }, raw: null })
