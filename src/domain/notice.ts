/**
 * What somebody may want to be told of.
 * - `ended`: a run is done, and has enriched rows
 * - `nothing`: a run is done, and has enriched none
 * - `budget_reached`: a run stopped at its budget
 * - `failed`: a run could not go on, or the service refuses us
 * - `late`: jobs passed their deadline without a delivery
 */
export const NOTICES = ['ended', 'nothing', 'budget_reached', 'failed', 'late'] as const
export type NoticeKind = (typeof NOTICES)[number]

export interface EndedRun {
  readonly status: 'completed' | 'budget_reached' | 'interrupted' | 'refused' | 'failed'
  readonly rows: { readonly picked: number; readonly enriched: number }
}

/** What a run's end is to whoever wants to be told. Null: an interrupted run is carried on by the next one. Pure. */
export function noticeOf({ status, rows }: EndedRun): NoticeKind | null {
  switch (status) {
    case 'completed':
      return rows.enriched > 0 ? 'ended' : 'nothing'
    case 'budget_reached':
      return 'budget_reached'
    case 'refused':
    case 'failed':
      return 'failed'
    case 'interrupted':
      return null
  }
}
