import type { NoticeKind } from '../domain/notice.ts'
import type { Trigger } from '../domain/run.ts'
import type { RunReport } from '../pipeline/run/report.ts'

/** The body of a notification in its JSON form. */
export type Notice = {
  /** The same in every try, so that a receiver can drop repeats. */
  readonly event_id: string
  readonly event: NoticeKind
  readonly at: string
} & (
  | { readonly run: NoticeRun; readonly jobs?: never }
  | { readonly jobs: { readonly overdue: number }; readonly run?: never }
)

export interface NoticeRun extends Pick<
  RunReport,
  'status' | 'reason' | 'rows' | 'lookups' | 'requests' | 'cells' | 'duration_ms'
> {
  readonly id: number
  readonly trigger: Trigger
  readonly sources: readonly string[]
}
