import type { ScheduleEntry } from '../config/config.ts'
import { nextTimes, scheduleName } from '../config/cron.ts'
import { listQueuedChanges, type QueuedChanges } from '../store/changed-rows.ts'
import { readDayBudget } from '../store/budgets.ts'
import type { Database } from '../store/open.ts'
import { listProcesses, type ListedProcess } from '../store/processes.ts'
import { listNotifications, type ListedNotification } from '../store/notifications.ts'
import { listScheduledRuns, type ListedScheduledRun } from '../store/scheduled-runs.ts'
import { listRecentTroubles, type StoredTrouble } from '../store/troubles.ts'

/** What runs by itself, and the processes that do it. */
export interface SystemData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  readonly processes: readonly ListedProcess[]
  /** A process that starts what is due is alive. */
  readonly hasDaemon: boolean
  readonly schedules: readonly ScheduleOverview[]
  /** Newest first. */
  readonly scheduledRuns: readonly ListedScheduledRun[]
  readonly liveSync: LiveSyncOverview
  /** Newest first, open ones and past ones. */
  readonly recentTroubles: readonly StoredTrouble[]
  /** Newest first. */
  readonly notifications: readonly ListedNotification[]
}

export interface ScheduleOverview extends Pick<ScheduleEntry, 'cron' | 'timezone' | 'sources'> {
  readonly name: string
  /** The next times; they pass without a run while no daemon is alive. */
  readonly next: readonly Date[]
  /** The latest firing; null: none yet. */
  readonly last: ListedScheduledRun | null
}

interface LiveSyncOverview {
  /** The sources that are followed. */
  readonly sources: readonly string[]
  /** The process that picks their changes; null: none does. */
  readonly owner: string | null
  readonly backlogs: readonly QueuedChanges[]
  /** Lookups spent today, by UTC, from its budget. */
  readonly spentToday: number
}

const SCHEDULED_RUNS = 60
const NEXT_TIMES = 3
const RECENT_TROUBLES = 30
const NOTIFICATIONS = 30
/** Name of the lease of live sync. */
const LIVE_SYNC_LEASE = 'follow'

/** Reads the processes, and the schedules and followed sources of the configurations that they have loaded. */
export async function readSystemData(db: Database, now: number): Promise<SystemData> {
  const [processes, scheduledRuns, backlogs, today, recentTroubles, notifications] = await Promise.all([
    listProcesses(db),
    listScheduledRuns(db, SCHEDULED_RUNS),
    listQueuedChanges(db),
    readDayBudget(db),
    listRecentTroubles(db, RECENT_TROUBLES),
    listNotifications(db, NOTIFICATIONS),
  ])
  const alive = processes.filter((one) => one.isAlive)
  const daemons = alive.filter((one) => one.role === 'start')
  const configs = (daemons.length > 0 ? daemons : alive).map((one) => readShownConfig(one.config))
  const entries = new Map(
    configs.flatMap(({ schedule }) => schedule).map((entry) => [scheduleName(entry), entry]),
  )
  return {
    readAt: now,
    processes,
    hasDaemon: daemons.length > 0,
    schedules: [...entries].map(([name, entry]) => ({
      name,
      cron: entry.cron,
      timezone: entry.timezone,
      sources: entry.sources,
      next: nextTimes(entry, now, NEXT_TIMES).map((at) => new Date(at)),
      last: scheduledRuns.find((one) => one.schedule === name) ?? null,
    })),
    scheduledRuns,
    recentTroubles,
    notifications,
    liveSync: {
      sources: [...new Set(configs.flatMap(({ followed }) => followed))],
      owner: alive.find((one) => one.leases.includes(LIVE_SYNC_LEASE))?.owner ?? null,
      backlogs,
      spentToday: today.spent,
    },
  }
}

/** The parts of a stored configuration that are shown. Another version may have stored another shape. */
function readShownConfig(config: unknown): {
  readonly schedule: readonly ScheduleEntry[]
  readonly followed: readonly string[]
} {
  const { schedule = [], sources = {} } = (config ?? {}) as {
    schedule?: Partial<ScheduleEntry>[]
    sources?: Record<string, { follow?: boolean }>
  }
  return {
    schedule: schedule.filter(
      (entry): entry is ScheduleEntry => typeof entry.cron === 'string' && Array.isArray(entry.sources),
    ),
    followed: Object.keys(sources).filter((name) => sources[name]?.follow === true),
  }
}
