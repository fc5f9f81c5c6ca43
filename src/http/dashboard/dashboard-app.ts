import type { Actions } from '../../actions/actions.ts'
import type { SpendSettings } from '../../actions/spend.ts'
import type { DashboardData, Verdict } from '../../actions/dashboard-data.ts'
import type { SystemData } from '../../actions/system-data.ts'
import type { FailureReason } from '../../store/failures.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import type { DatabaseOutage } from '../../domain/condition.ts'
import type { Observer } from '../../store/condition-facts.ts'
import type { WorkMetrics } from '../../pipeline/metrics-recorder.ts'
import type { Database } from '../../store/open.ts'
import type { Log } from '../../util/log.ts'

export interface DashboardOptions {
  readonly db: Database
  /** The current sources: a daemon may reload its configuration. */
  readonly sources: () => ReadonlyMap<string, SourceMapping>
  readonly spendSettings: () => SpendSettings
  /** What this process knows and Postgres does not, and what keeps it from Postgres. */
  readonly observer: () => Observer & { readonly outage: DatabaseOutage | null }
  /** Null while no configuration is loaded. */
  readonly app: () => Actions | null
  /** What this process has done. */
  readonly metrics: WorkMetrics
  readonly log: Log
}

/** What pages and actions read and change. */
export interface DashboardDeps extends DashboardOptions {
  /** Each is read once for all readers of about the same time. The verdict is some seconds old at most. */
  readonly readVerdict: () => Promise<Verdict>
  readonly readData: () => Promise<DashboardData>
  readonly readSystem: () => Promise<SystemData>
  /** Why rows of the configured sources are not enriched, the most frequent reason first. */
  readonly readReasons: () => Promise<readonly FailureReason[]>
}
