import { JOB_SIZE } from '../../domain/job.ts'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { routeEmails, type RouteOption } from '../../domain/route.ts'
import type { KnownLimit } from '../../store/rate-limits.ts'

export interface Calls {
  readonly person: number
  readonly company: number
  readonly bulk: number
  readonly total: number
}

/** Calls by route, as a run would make them. Pure. */
export function callsFor(
  toAsk: Readonly<Record<LookupKind, number>>,
  options: { readonly route: RouteOption; readonly bulkPossible: boolean },
  minimum: number,
): Calls {
  const { bulkFrom, singly } = routeEmails({
    option: options.route,
    bulkPossible: options.bulkPossible,
    picking: false,
    minimum,
  })
  const rest = toAsk.email % JOB_SIZE
  const full = (toAsk.email - rest) / JOB_SIZE
  const inBulk = bulkFrom === null ? 0 : full + (rest >= Math.min(bulkFrom, JOB_SIZE) ? 1 : 0)
  const emails = bulkFrom === null ? toAsk.email : Math.max(0, toAsk.email - inBulk * JOB_SIZE)
  const person = toAsk.linkedin_url + toAsk.name_company + (singly === 'never' ? 0 : emails)
  return { person, company: toAsk.domain, bulk: inBulk, total: person + toAsk.domain + inBulk }
}

/** How long so many calls take at the limit last known, in milliseconds; null when it is not known. Pure. */
export function timeFor(calls: number, known: KnownLimit | null): number | null {
  if (known === null || known.windowMs === null || known.limit === 0) return null
  return Math.max(0, Math.ceil(calls / known.limit) - 1) * known.windowMs
}

export interface Range {
  readonly min: number
  readonly max: number
}

/** 95 of 100 such ranges hold what then comes. */
const Z = 1.96

/**
 * How many of so many lookups will find something, out of those decided so far: Wilson's interval for the share, made
 * wider for what is chance in the new ones too. With few known it is wide, and with none it says nothing. Pure.
 */
export function expectedFound(
  lookups: number,
  soFar: { readonly found: number; readonly asked: number },
): Range | null {
  if (soFar.asked === 0) return null
  if (lookups === 0) return { min: 0, max: 0 }
  const share = soFar.found / soFar.asked
  const n = 1 / (1 / soFar.asked + 1 / lookups)
  const middle = (share + Z ** 2 / (2 * n)) / (1 + Z ** 2 / n)
  const half = (Z / (1 + Z ** 2 / n)) * Math.sqrt((share * (1 - share)) / n + Z ** 2 / (4 * n ** 2))
  return {
    min: Math.max(0, Math.floor(lookups * (middle - half))),
    max: Math.min(lookups, Math.ceil(lookups * (middle + half))),
  }
}
