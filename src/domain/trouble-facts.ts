import type { Cause } from './causes.ts'
import type { CircuitCause, RateStatus } from './rate-status.ts'
import type { RejectedWrites } from './rejected-writes.ts'
import type { ScheduledRunState } from './schedule.ts'
import type { Trouble, TroubleCode, TroubleDetails } from './trouble.ts'

/** A trouble that holds now, or did and is over. */
export interface ObservedTrouble {
  readonly code: TroubleCode
  readonly subject: string
  readonly since: Date
  readonly details: TroubleDetails
  /** When its process learnt it. A trouble that ended after that does not begin again. Default: the time of the report. */
  readonly knownAt?: Date
  /** Set if it is over already: what a process could not report while it lasted. */
  readonly endedAt?: Date
}

/** What is stored, at one moment, about everything that can go wrong. Times by Postgres's clock. */
export interface TroubleFacts {
  readonly now: Date
  /** A standby, or a server that takes no writes for now. */
  readonly isReadOnly: boolean
  /** Rows that wait, of all sources. */
  readonly waitingRows: number
  readonly circuits: readonly {
    readonly scope: string
    readonly openedAt: Date
    readonly probeAt: Date
    readonly reason: string | null
    readonly cause: CircuitCause
  }[]
  /** The leaders that are alive or were a moment ago, with their latest report, or that of the leader before. */
  readonly leaders: readonly { readonly scope: string; readonly status: RateStatus | null }[]
  /** The troubles that are recorded as open. */
  readonly openTroubles: readonly (Pick<Trouble, 'code' | 'subject'> & { readonly seenAt: Date })[]
  /** When causes of others were last proved to be over. */
  readonly endedCauses: readonly Cause[]
  /** Jobs past their deadline since the latest delivery. */
  readonly overdueJobs: { readonly jobs: number; readonly since: Date | null }
  /** The latest scheduled run of each schedule. */
  readonly scheduledRuns: readonly {
    readonly schedule: string
    readonly at: Date
    readonly state: ScheduledRunState
    /** A process is running it. */
    readonly isHeld: boolean
    readonly reason: string | null
  }[]
  /** Changed rows that were not picked yet, by source, without paused ones. */
  readonly changes: readonly {
    readonly source: string
    readonly count: number
    /** Those of them that are single edits, not parts of an import. */
    readonly edits: number
    readonly oldestEditAt: Date | null
    readonly oldestImportAt: Date | null
  }[]
  /** The budget of live sync if it is spent today, or the parts of it that are. */
  readonly spentBudgets: readonly {
    /** Whose part of it is spent; null: all of it. */
    readonly source: string | null
    readonly limit: number
    /** It counts credits. Default: lookups. */
    readonly isInCredits?: boolean
  }[]
  /**
   * The latest failed run of each set of sources that no user has started, unless each of its sources has ended another
   * run since, or live sync has written it.
   */
  readonly failedRuns: readonly {
    readonly run: number
    readonly sources: readonly string[]
    readonly scope: string | null
    /** The trouble for which it failed; null: for another reason. */
    readonly failedFor: TroubleCode | null
    readonly reason: string | null
    readonly finishedAt: Date
  }[]
  /** Sources of which the database rejects rows. */
  readonly rejectedWrites: readonly RejectedWrites[]
  /** Whether a daemon is alive. */
  readonly hasDaemon: boolean
  /** The process that notifies for all while nothing can be stored. Null, or absent: none is alive. */
  readonly speaker?: string | null
  /** Whether Postgres has refused statements of any process within seconds. Default: no. */
  readonly isRefused?: boolean
}

/** What only this process knows. */
export interface OwnTrouble {
  readonly code: 'key_refused' | 'reload_refused' | 'schema_outdated' | 'triggers_outdated' | 'database_away'
  readonly subject: string
  readonly details: TroubleDetails
  /** How long ago it began, and was seen last, in milliseconds: another machine's clock may differ. */
  readonly forMs: number
  readonly seenAgoMs: number
}

export interface ObserverOptions {
  readonly own: readonly OwnTrouble[]
  /** The schedules of the configuration, and when each was due last, in milliseconds since the epoch. Null: unknown. */
  readonly schedules: ReadonlyMap<string, number | null> | null
}

/**
 * Whether a response proves that the service accepts the key. Any other status may come from a proxy before it.
 * @example isKeyAccepted(404) // true: it knows no such person
 */
export const isKeyAccepted = (status: number | null): boolean =>
  status !== null && ((status >= 200 && status < 300) || status === 404)
