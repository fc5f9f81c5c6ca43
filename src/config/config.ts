import type { SourceMapping } from '../domain/mapping.ts'
import type { Service } from '../domain/service/service.ts'
import type { Price } from '../domain/spend.ts'
import type { NotificationTopic } from '../domain/notification.ts'

/** The maximum number of lookups of a run. */
export type LookupBudget = number | 'unlimited'

/** An entry of the schedule: when to run which sources. */
export interface ScheduleEntry {
  /** Five fields: minute, hour, day of month, month, day of week; or a name such as `@daily`. */
  readonly cron: string
  /** IANA name. Null: the zone of the machine. */
  readonly timezone: string | null
  readonly sources: readonly string[]
  /** Null: the configuration's own. */
  readonly budget: LookupBudget | null
  /** Rows. Null: all. */
  readonly limit: number | null
  /** Whether a missed scheduled run is caught up once at the next start. */
  readonly catchUp: boolean
}

/** A configuration that has been checked, with every default filled in. */
export interface Config {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
  readonly sources: Readonly<Record<string, SourceMapping>>
  /** How the service is called: the built-in interface if the configuration names no other. */
  readonly adapter: Service
  readonly service: {
    /** The maximum number of concurrent calls, over up to a quarter more connections. */
    readonly concurrency: number
    readonly timeoutMs: number
    /** 0 to 0.9: the share of the rate limit reserved for urgent lookups. */
    readonly reserve: number
    /** What the rate limit belongs to. Null: the API key. */
    readonly account: string | null
  }
  readonly bulk: {
    /** How many email lookups must wait before they are submitted in bulk. */
    readonly minimum: number
    /** A job is given up after this long without a delivery. */
    readonly deadlineMs: number
    /** How long a completed job waits for further deliveries before inputs without a result are requested singly. */
    readonly graceMs: number
  }
  readonly refreshAfterMs: number
  readonly retryNotFoundAfterMs: number
  /** The maximum number of attempts of a lookup. */
  readonly attempts: number
  /** Null: a run requires `--budget`. */
  readonly budget: LookupBudget | null
  /** Null: unknown. */
  readonly price: Price | null
  /** Lookups a day (UTC), of single edits and of imports. Null: live sync is not possible. */
  readonly liveSync: { readonly budget: LookupBudget | null; readonly importBudget: LookupBudget | null }
  readonly schedule: readonly ScheduleEntry[]
  /** Retention periods. Null: kept forever. */
  readonly keep: {
    readonly recordsMs: number | null
    readonly deliveriesMs: number
    readonly changesMs: number | null
  }
  readonly notify: readonly NotifyTarget[]
  readonly dashboard: {
    /** Whether a run that is started there may have a condition in SQL. */
    readonly allowWhere: boolean
  }
}

/** A receiver of notifications. */
export interface NotifyTarget {
  /** Null: FILLRATE_NOTIFY_URL from the environment. */
  readonly url: string | null
  /** `json`: a signed JSON body; `slack`: `{ text }`, for Slack and compatible services. */
  readonly form: 'json' | 'slack'
  readonly on: readonly NotificationTopic[]
}
