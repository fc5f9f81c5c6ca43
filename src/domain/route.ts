import { JOB_SIZE } from './job.ts'
import type { BulkCall } from './service/service.ts'

/** `--route`: how lookups are requested. `auto` decides by their number. */
export type RouteOption = 'auto' | 'sync' | 'bulk'

/**
 * Decides how waiting email lookups are requested:
 * - in bulk jobs of at most `size`, while at least `bulkFrom` lookups wait
 * - singly, one call per lookup
 *
 * While rows are still being picked only full jobs are submitted, because every job costs one call. Afterwards `minimum`
 * decides, and the rest is requested singly.
 */
export function routeEmails(situation: {
  readonly option: RouteOption
  /** The service has a bulk endpoint, and its results can arrive. */
  readonly bulkPossible: boolean
  /** Rows are still being picked. */
  readonly picking: boolean
  readonly minimum: number
  /** Emails of a full job. */
  readonly size: number
}): { readonly bulkFrom: number | null; readonly singly: 'now' | 'when_fewer' | 'never' } {
  const { option, bulkPossible, picking, minimum, size } = situation
  if (option === 'sync' || !bulkPossible) return { bulkFrom: null, singly: 'now' }
  const minimumJob = option === 'bulk' ? 1 : minimum
  return {
    bulkFrom: picking ? Math.max(size, minimumJob) : minimumJob,
    singly: picking || option === 'bulk' ? 'never' : 'when_fewer',
  }
}

/**
 * `bulk.minimum`, where the configuration leaves it open: half of a job, and no more than 50. Where the results come in
 * the answer, nothing is gained by waiting: from two emails on, a job is one call in place of several.
 */
export const defaultBulkMinimum = (bulk: Pick<BulkCall, 'size' | 'results'> | null): number =>
  bulk?.results === 'answer' ? 2 : Math.ceil(Math.min(bulk?.size ?? JOB_SIZE, JOB_SIZE) / 2)
