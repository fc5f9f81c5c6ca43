/**
 * What somebody may want to be told of.
 * - `completed`: a run is done, and has enriched rows
 * - `no_matches`: a run is done, and has enriched none
 * - `budget_reached`: a run stopped at its budget
 * - `failed`: a run could not go on, or the service refuses us
 * - `jobs_overdue`: jobs passed their deadline without a delivery
 */
export const NOTICES = ['completed', 'no_matches', 'budget_reached', 'failed', 'jobs_overdue'] as const
export type NoticeKind = (typeof NOTICES)[number]

export interface EndedRun {
  readonly status: 'completed' | 'budget_reached' | 'interrupted' | 'unauthorized' | 'failed'
  readonly rows: { readonly picked: number; readonly enriched: number }
}

/** What a run's end is to whoever wants to be told. Null: an interrupted run is carried on by the next one. Pure. */
export function noticeOf({ status, rows }: EndedRun): NoticeKind | null {
  switch (status) {
    case 'completed':
      return rows.enriched > 0 ? 'completed' : 'no_matches'
    case 'budget_reached':
      return 'budget_reached'
    case 'unauthorized':
    case 'failed':
      return 'failed'
    case 'interrupted':
      return null
  }
}
