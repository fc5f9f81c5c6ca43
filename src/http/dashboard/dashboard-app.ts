import type { SpendSettings } from '../../actions/spend.ts'
import type { RowHistory } from '../../actions/explain/row-history.ts'
import type { DashboardData } from '../../actions/dashboard-data.ts'
import type { ForgetDeletedReport } from '../../actions/forget-deleted.ts'
import type { Plan } from '../../actions/plan/plan.ts'
import type { RetryOptions, RetryReport } from '../../actions/retry.ts'
import type { SystemData } from '../../actions/system-data.ts'
import type { UndoReport } from '../../actions/undo/report.ts'
import type { UndoOptions } from '../../actions/undo/undo.ts'
import type { PassRequest } from '../../actions/validate-request.ts'
import type { LookupBudget } from '../../domain/spend.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import type { ObserverOptions } from '../../domain/trouble-facts.ts'
import type { Database } from '../../store/open.ts'
import type { Log } from '../../util/log.ts'

/** What the actions use of the loaded configuration. */
export interface DashboardApp {
  /** Whether lookups can be submitted in bulk, and if not, what would make it possible. */
  readonly bulk: { readonly isPossible: boolean; readonly todo: string | null }
  readonly defaults: {
    readonly budget: LookupBudget | null
    /** Whether a run may have a condition in SQL. */
    readonly allowsWhere: boolean
  }
  /** The service that requested runs call; 0 if this process calls none. */
  readonly service: () => Promise<number>
  /** @throws ConfigProblems if the configuration has no such source, or the condition is invalid */
  readonly validate: (request: PassRequest) => Promise<unknown>
  readonly plan: (request: PassRequest) => Promise<Plan>
  /** Reverts the writes of a run. */
  readonly undo: (options: UndoOptions) => Promise<UndoReport>
  /** Erases what is stored of the rows that a source's table no longer has. */
  readonly forgetDeleted: (
    source: string,
    options: { readonly dryRun: boolean; readonly signal: AbortSignal },
  ) => Promise<ForgetDeletedReport>
  /** Queues failed rows again. `sources`: names; none means all. */
  readonly retry: (
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ) => Promise<RetryReport>
}

export interface DashboardOptions {
  readonly db: Database
  /** The current sources: a daemon may reload its configuration. */
  readonly sources: () => ReadonlyMap<string, SourceMapping>
  readonly spendSettings: () => SpendSettings
  /** What this process knows of troubles, beside what is stored. */
  readonly observer: () => ObserverOptions
  readonly explain: (source: string, key: string) => Promise<RowHistory>
  /** Null while no configuration is loaded. */
  readonly app: () => DashboardApp | null
  readonly log: Log
}

/** What pages and actions read and change. */
export interface DashboardDeps extends DashboardOptions {
  /** Each is read once for all readers of about the same time. */
  readonly readData: () => Promise<DashboardData>
  readonly readSystem: () => Promise<SystemData>
}
