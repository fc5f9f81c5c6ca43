import { JOB_SIZE } from './job.ts'

/** `--route`: how lookups are requested. `auto` decides by their number. */
export type RouteOption = 'auto' | 'sync' | 'bulk'

/**
 * Decides how waiting email lookups are requested:
 * - in bulk jobs of at most 100, while at least `bulkFrom` lookups wait
 * - singly, one call per lookup
 *
 * While rows are still being picked only full jobs are submitted: the rest may still fill one, and a job of 60 costs as
 * much of the rate limit as one of 100. Afterwards `minimum` decides, and the rest is requested singly.
 */
export function routeEmails(situation: {
  readonly option: RouteOption
  /** A webhook URL is configured, or the service is on loopback. */
  readonly bulkPossible: boolean
  /** Rows are still being picked. */
  readonly picking: boolean
  readonly minimum: number
}): { readonly bulkFrom: number | null; readonly singly: 'now' | 'when_fewer' | 'never' } {
  const { option, bulkPossible, picking, minimum } = situation
  if (option === 'sync' || !bulkPossible) return { bulkFrom: null, singly: 'now' }
  const minimumJob = option === 'bulk' ? 1 : minimum
  return {
    bulkFrom: picking ? Math.max(JOB_SIZE, minimumJob) : minimumJob,
    singly: picking || option === 'bulk' ? 'never' : 'when_fewer',
  }
}
