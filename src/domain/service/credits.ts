import { ALL_LOOKUP_KINDS, type LookupKind } from '../identifiers/kind.ts'
import { isObject, listItems } from '../json.ts'
import { roundCredits } from '../spend.ts'
import type { CreditsDefinition } from './adapter.ts'
import type { ServiceDelivery, StatedCredits } from './messages.ts'

/** What lookups cost, in credits, which budgets count. Without a definition: one each. */
export interface ServiceCredits {
  /** Every lookup costs one credit, whatever it finds. */
  readonly isFlat: boolean
  /** The least and the most that a lookup may cost. */
  readonly least: Readonly<Record<LookupKind, number>>
  readonly most: Readonly<Record<LookupKind, number>>
  /** What a lookup costs, by its record; null: no match. */
  of(kind: LookupKind, record: Readonly<Record<string, unknown>> | null): number
}

/** A number for each kind of lookup. */
export const byKind = (toCount: (kind: LookupKind) => number): Record<LookupKind, number> => ({
  email: toCount('email'),
  linkedin_url: toCount('linkedin_url'),
  name_company: toCount('name_company'),
  domain: toCount('domain'),
})

/** Completes what a service bills. */
export function readCredits(definition: CreditsDefinition = { most: 1 }): ServiceCredits {
  const { most: bound, of: toCost } = definition
  const most = byKind((kind) => (typeof bound === 'function' ? bound(kind) : bound))
  const of: ServiceCredits['of'] = (kind, record) =>
    toCost === undefined ? most[kind] : (tryCost(toCost, kind, record) ?? most[kind])
  return {
    isFlat: toCost === undefined && ALL_LOOKUP_KINDS.every((kind) => most[kind] === 1),
    least: byKind((kind) => Math.min(most[kind], of(kind, null))),
    most,
    of,
  }
}

/**
 * Null: the description's own function fails, or gives no number of credits. The record is paid for,
 * and is kept all the same.
 */
function tryCost(
  toCost: NonNullable<CreditsDefinition['of']>,
  kind: LookupKind,
  record: Readonly<Record<string, unknown>> | null,
): number | null {
  try {
    return toStated(toCost(kind, record))
  } catch {
    return null
  }
}

/** The value of a field such as `location.city`; undefined if it is missing. */
export const valueAtPath = (record: unknown, path: string): unknown =>
  path
    .split('.')
    .reduce<unknown>(
      (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined),
      record,
    )

/** More is no cost of a call. */
const MAX_STATED_CREDITS = 1_000_000

/** Whether a reader may say that something cost this. Null or undefined: the answer does not say. */
export const areCredits = (value: unknown): value is number | null | undefined =>
  value === null ||
  value === undefined ||
  (typeof value === 'number' && value >= 0 && value <= MAX_STATED_CREDITS)

/** @throws TypeError for what is no number of credits */
function toStated(value: unknown): number | null {
  if (!areCredits(value)) throw new TypeError('no number of credits')
  return value === null || value === undefined ? null : roundCredits(value)
}

/**
 * What the service's own reader says that results cost. Only its reader knows: in a delivery as the service sends it, a field of
 * this name may be what is left.
 * @throws TypeError for what is no number of credits
 */
export function withStatedCredits(delivery: ServiceDelivery): ServiceDelivery {
  const stated: StatedCredits = {
    job: toStated(delivery.credits),
    results: listItems(delivery.results).map((item) =>
      isResultObject(item) ? toStated(item['credits']) : null,
    ),
  }
  return stated.job === null && stated.results.every((one) => one === null)
    ? delivery
    : { ...delivery, stated }
}

/** It is no record itself, whose fields may have any name. */
const isResultObject = (item: unknown): item is Record<string, unknown> =>
  isObject(item) && (Object.hasOwn(item, 'request_id') || Object.hasOwn(item, 'data'))

/**
 * Shares credits in proportion to weights, in decimals as fine as those of the credits, so that the parts add up to them. Where all weigh
 * nothing, all weigh the same. Pure.
 */
export function shareCredits(credits: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0)
  const [shares, of] = sum > 0 ? [weights, sum] : [weights.map(() => 1), weights.length]
  // In whole units: a sum of them is exact.
  const unit =
    [1, 10, 100, 1_000, 10_000, 100_000].find((one) => Number.isInteger(roundCredits(credits * one))) ?? 1e6
  const units = Math.round(credits * unit)
  const parts = shares.map((weight) => (units * weight) / of)
  const whole = parts.map(Math.floor)
  let left = units - whole.reduce((total, part) => total + part, 0)
  // Those that lose most by being rounded down get what is left; of equals, the first.
  const order = parts
    .map((part, n) => ({ n, lost: part - Math.floor(part) }))
    .sort((a, b) => b.lost - a.lost || a.n - b.n)
  for (const { n } of order) {
    if (left <= 0) break
    whole[n] = (whole[n] ?? 0) + 1
    left--
  }
  return whole.map((part) => roundCredits(part / unit))
}
