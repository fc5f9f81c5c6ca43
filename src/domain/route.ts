/** `--route`: how lookups are asked. `auto` lets the numbers decide. */
export type RouteOption = 'auto' | 'sync' | 'bulk'

/**
 * How email lookups that wait go out.
 * - `bulk`: in jobs of at most 100, as long as `least` of them wait
 * - `sync`: one call a lookup
 *
 * While rows are still being picked only full jobs are sent: the rest may grow into one, and a job of 60 costs as
 * much of the rate limit as one of 100. Afterwards `minimum` decides, and what is left goes singly.
 */
export function routeEmails(situation: {
  readonly option: RouteOption
  /** A webhook address is configured, or the service is on loopback. */
  readonly bulkPossible: boolean
  /** Rows are still being picked. */
  readonly picking: boolean
  readonly minimum: number
}): { readonly bulkFrom: number | null; readonly singly: 'now' | 'when_fewer' | 'never' } {
  const { option, bulkPossible, picking, minimum } = situation
  if (option === 'sync' || !bulkPossible) return { bulkFrom: null, singly: 'now' }
  const least = option === 'bulk' ? 1 : minimum
  return {
    bulkFrom: picking ? Math.max(FULL_JOB, least) : least,
    singly: picking || option === 'bulk' ? 'never' : 'when_fewer',
  }
}

const FULL_JOB = 100
