import type { SourceMapping } from '../domain/mapping.ts'
import type { NotificationKind } from '../domain/run.ts'

/** How many lookups a run may ask the service. */
export type LookupBudget = number | 'unlimited'

/** One line of the schedule: when to run which sources. */
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
  /** Whether a tick that was missed is run once at the next start. */
  readonly catchUp: boolean
}

/** A configuration that has been checked, with every default filled in. */
export interface Config {
  /** The file that it came from. Null: from code. */
  readonly path: string | null
  readonly sources: Readonly<Record<string, SourceMapping>>
  readonly service: {
    /** Calls under way at once. */
    readonly concurrency: number
    readonly timeoutMs: number
    /** 0 to 0.9: the share of the quota that is kept for what is urgent. */
    readonly reserve: number
  }
  readonly bulk: {
    /** Lookups by email that must wait before they go in bulk. */
    readonly minimum: number
    /** After this long without a delivery a job is given up. */
    readonly deadlineMs: number
    /** Inputs without a result of a job that is over are requested singly after this long. */
    readonly graceMs: number
  }
  readonly refreshAfterMs: number
  readonly retryNotFoundAfterMs: number
  /** Tries of one lookup before it is failed. */
  readonly attempts: number
  /** Null: a run must be given `--budget`. */
  readonly budget: LookupBudget | null
  readonly schedule: readonly ScheduleEntry[]
  /** How long things are kept. Null: for ever. */
  readonly keep: {
    readonly recordsMs: number | null
    readonly deliveriesMs: number
    readonly changesMs: number | null
  }
  readonly notify: readonly NotifyTarget[]
}

/** Somebody who wants to be told. */
export interface NotifyTarget {
  /** Null: the environment's FILLRATE_NOTIFY_URL. */
  readonly url: string | null
  /** A signed JSON body, or what Slack and others like it take. */
  readonly form: 'json' | 'slack'
  readonly on: readonly NotificationKind[]
}
