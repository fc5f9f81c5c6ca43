import type { SpendAmount } from '../domain/spend.ts'
import type { Database } from '../store/open.ts'
import { hasNamedServices, nameServices, toServiceName } from '../store/services.ts'
import { type DaySpend, listDaySpendOf, listSpendingSources, type SpendFilter } from '../store/spend.ts'
import { type Prices, sumPriced } from './spend.ts'
import { expandSourceNames, refuseUnknownSource } from './validate-request.ts'

/** The bill of each source, from what was counted with each answer, killed and running runs included. */
export interface Bill {
  /** Midnight UTC; null: since the start. */
  readonly since: Date | null
  /** Midnight UTC, which is not in it; null: until now. */
  readonly until: Date | null
  readonly total: SpendAmount
  /** The most expensive first. Sources without spend are left out. */
  readonly sources: readonly (SpendAmount & { readonly source: string })[]
}

/** @param prices null: unknown */
export async function readBill(db: Database, filter: SpendFilter, prices: Prices | null): Promise<Bill> {
  const lines = await listDaySpendOf(db, filter)
  const sources = [...Map.groupBy(lines, ({ source }) => source)]
    .map(([source, all]) => ({ source, ...sumPriced(all, prices) }))
    .toSorted((a, b) => (b.cost?.amount ?? b.lookups) - (a.cost?.amount ?? a.lookups))
  return { since: filter.since, until: filter.until, total: sumPriced(lines, prices), sources }
}

/**
 * The sources that names and patterns mean: those of the configuration, and those that left it and were paid for.
 * @returns null: all, as no name is given
 */
export async function chooseBilledSources(
  db: Database,
  words: readonly string[],
  configured: readonly string[],
): Promise<readonly string[] | null> {
  if (words.length === 0) return null
  const known = [...new Set([...configured, ...(await listSpendingSources(db))])]
  const names = expandSourceNames(words, known)
  for (const name of names) if (!known.includes(name)) refuseUnknownSource(name, known)
  return names
}

const SPEND_COLUMNS = 'day,source,endpoint,calls,retried,throttled,lookups,in_doubt,credits'.split(',')

/** Lines of spend as a CSV file, with several services the service in its last column. */
export async function toSpendCsv(
  db: Database,
  lines: readonly DaySpend[],
): Promise<{ readonly columns: readonly string[]; readonly lines: (readonly (string | null)[])[] }> {
  const isNamed = await hasNamedServices(db)
  const names = await nameServices(db)
  return {
    columns: isNamed ? [...SPEND_COLUMNS, 'service'] : SPEND_COLUMNS,
    lines: lines.map((one) => [
      one.day,
      one.source,
      one.endpoint,
      ...[one.calls, one.retried, one.throttled, one.lookups, one.in_doubt, one.credits ?? one.lookups].map(
        String,
      ),
      ...(isNamed ? [toServiceName(names, one.service_id).service ?? null] : []),
    ]),
  }
}
