import { JOB_SIZE } from './job.ts'
import type { BulkCall } from './service/service.ts'

/** `--route`: how lookups are requested. `auto` decides by their number. */
export const ROUTES = ['auto', 'sync', 'bulk'] as const
export type ChosenRoute = (typeof ROUTES)[number]

/** How lookups that may go in bulk are requested. */
export interface BulkRoute {
  /** As many must wait for a job. Null: they do not go in bulk. */
  readonly bulkFrom: number | null
  readonly singly: 'now' | 'when_fewer' | 'never'
}

/**
 * Decides how the waiting lookups of a bulk endpoint are requested:
 * - in bulk jobs of at most `size`, while at least `bulkFrom` lookups wait
 * - singly, one call per lookup
 *
 * While rows are still being picked only full jobs are submitted, because every job costs one call. Afterwards `minimum`
 * decides, and the rest is requested singly.
 */
export function routeLookups(situation: {
  readonly option: ChosenRoute
  /** The results of the endpoint can arrive. */
  readonly bulkPossible: boolean
  /** Rows are still being picked. */
  readonly picking: boolean
  readonly minimum: number
  /** Lookups of a full job. */
  readonly size: number
}): BulkRoute {
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
 * the answer, nothing is gained by waiting: from two lookups on, a job is one call in place of several.
 */
export const defaultBulkMinimum = ({ size, results }: Pick<BulkCall, 'size' | 'results'>): number =>
  results === 'answer' ? 2 : Math.ceil(Math.min(size, JOB_SIZE) / 2)
