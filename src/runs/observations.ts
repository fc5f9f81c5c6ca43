import type { Preview } from '../pipeline/preview.ts'
import type { DeletedRowsReport } from './reconcile-deleted.ts'
import type { ServicePart } from './run-part.ts'

/** What a run leaves behind when it ends. */
export interface Leftover {
  /** Rows of the same sources held by other runs. */
  others: number
  /** Own rows whose lookups are retried by the next run or the daemon, and when the first of them is. */
  later: number
  laterAt: Date | null
  /** Own rows that are answered but locked by other transactions. */
  locked: number
}

/** What a run observes, to report at its end. */
export class RunObservations {
  /** What ends it as a whole. */
  readonly failures: unknown[] = []
  preview: Preview | null = null
  /** Of which, by service. */
  readonly previews = new Map<ServicePart, Preview>()
  /** What it left to other runs when it completed. */
  leftover: Leftover = { others: 0, later: 0, laterAt: null, locked: 0 }
  /** Sources skipped, or not picked any further, because they were paused. */
  readonly pausedSources = new Set<string>()
  /** Sources not read to the end because another transaction had locked their table. */
  readonly unreadSources = new Set<string>()
  /** Sources of which a dry run read a part, at random places. */
  readonly sampledSources = new Set<string>()
  readonly deletedRows = new Map<string, DeletedRowsReport>()
  /** Who has cancelled the run; null: no one. */
  cancelledBy: string | null = null
}
