import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { defaultBulkMinimum, routeLookups } from '../../domain/route.ts'
import type { RunSpec } from '../../domain/run.ts'
import type { BulkCall } from '../../domain/service/service.ts'
import { roundCredits } from '../../domain/spend.ts'
import type { CallCounts } from './duration.ts'

/** What decides by which calls lookups are requested. */
export interface PlannedCalls extends Pick<RunSpec, 'route'> {
  /** Deliveries arrive. */
  readonly usesWebhook: boolean
  /** From the submission of a bulk job to its first poll. Null: no job is fetched. */
  readonly firstPollMs: number | null
}

export const NO_LOOKUPS: Readonly<Record<LookupKind, number>> = {
  email: 0,
  linkedin_url: 0,
  name_company: 0,
  domain: 0,
}

/** What lookups cost, at a cost for each kind. */
export function sumCredits(
  counts: Readonly<Record<LookupKind, number>>,
  each: Readonly<Record<LookupKind, number>>,
): { readonly all: number; readonly person: number; readonly company: number } {
  const all = roundCredits(sumOf(mapKinds(counts, (count, kind) => count * each[kind])))
  const company = roundCredits(counts.domain * each.domain)
  return { all, person: roundCredits(all - company), company }
}

export const sumOf = (counts: Readonly<Record<LookupKind, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)

export const mapKinds = (
  counts: Readonly<Record<LookupKind, number>>,
  toCount: (count: number, kind: LookupKind) => number,
): Record<LookupKind, number> => ({
  email: toCount(counts.email, 'email'),
  linkedin_url: toCount(counts.linkedin_url, 'linkedin_url'),
  name_company: toCount(counts.name_company, 'name_company'),
  domain: toCount(counts.domain, 'domain'),
})

/**
 * The lookups that a budget pays, by kind: sources share it as in a run, and within a source the kinds are taken in
 * proportion. Pure.
 * @param requests lookups of each source
 * @param budget credits, as `limits`
 * @param limits the most that each source may use
 * @param credits the most that a lookup of a kind may cost. Default: 1
 */
export function countPayable(
  requests: readonly Readonly<Record<LookupKind, number>>[],
  budget: number,
  limits: readonly number[] = [],
  credits: Readonly<Record<LookupKind, number>> = mapKinds(NO_LOOKUPS, () => 1),
): Record<LookupKind, number> {
  const totals = requests.map((counts) => sumCredits(counts, credits).all)
  const paid = totals.map(() => 0)
  let left = budget
  for (const isShared of [true, false])
    for (const [n, total] of totals.entries()) {
      const share = isShared ? Math.ceil(roundCredits(left / (totals.length - n))) : left
      const limit = limits[n] ?? Number.POSITIVE_INFINITY
      const added = roundCredits(Math.min(share, left, Math.min(total, limit) - (paid[n] ?? 0)))
      paid[n] = roundCredits((paid[n] ?? 0) + added)
      left = roundCredits(left - added)
    }
  const payable = { ...NO_LOOKUPS }
  for (const [n, counts] of requests.entries()) {
    let [open, openPaid] = [totals[n] ?? 0, paid[n] ?? 0]
    mapKinds(counts, (count, kind) => {
      const each = credits[kind]
      // What costs nothing is always paid, and no part of a lookup is.
      const isFree = each === 0 || open === 0
      const part = isFree
        ? count
        : Math.min(Math.round((count * openPaid) / open), Math.floor(roundCredits(openPaid / each)))
      open = roundCredits(open - count * each)
      openPaid = roundCredits(openPaid - part * each)
      return (payable[kind] += part)
    })
  }
  return payable
}

/**
 * Estimates calls by route, as a run would make them. Pure.
 * @param minimum null: that of each endpoint
 */
export function estimateCalls(
  toAsk: Readonly<Record<LookupKind, number>>,
  options: PlannedCalls & {
    readonly bulkCalls: readonly Pick<BulkCall, 'kinds' | 'size' | 'results' | 'needsWebhook'>[]
  },
  minimum: number | null,
): CallCounts {
  const { route, usesWebhook, firstPollMs, bulkCalls } = options
  let [person, company] = [toAsk.email + toAsk.linkedin_url + toAsk.name_company, toAsk.domain]
  let [bulk, polls] = [0, 0]
  for (const { kinds, size, results, needsWebhook } of bulkCalls) {
    const { bulkFrom, singly } = routeLookups({
      option: route,
      bulkPossible: usesWebhook || !needsWebhook,
      picking: false,
      minimum: minimum ?? defaultBulkMinimum({ size, results }),
      size,
    })
    if (bulkFrom === null) continue
    const waiting = kinds.reduce((sum, kind) => sum + toAsk[kind], 0)
    const full = Math.floor(waiting / size)
    const jobs = waiting < bulkFrom ? 0 : full + (waiting % size >= Math.min(bulkFrom, size) ? 1 : 0)
    const notSingly = singly === 'never' ? waiting : Math.min(waiting, jobs * size)
    if (kinds.includes('domain')) company -= notSingly
    else person -= notSingly
    bulk += jobs
    const isFetched = results !== 'answer' && !(usesWebhook && results === 'webhook')
    if (isFetched && firstPollMs !== null) polls += jobs
  }
  return { person, company, bulk, polls, total: person + company + bulk + polls }
}

export interface CountRange {
  readonly min: number
  readonly max: number
}
