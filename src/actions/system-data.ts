import type { ScheduleEntry } from '../config/config.ts'
import { nextTimes, scheduleName } from '../config/cron.ts'
import { type AuditEvent, listAuditEvents } from '../store/audit.ts'
import type { Database } from '../store/open.ts'
import { listProcesses, type ListedProcess } from '../store/processes.ts'
import { listRecentConditions, type StoredCondition } from '../store/conditions.ts'

/** What runs by itself, and the processes that do it. */
export interface SystemData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  readonly processes: readonly ListedProcess[]
  /** A process that starts what is due is alive. */
  readonly hasDaemon: boolean
  /** The next time of each schedule; it passes without a run while no daemon is alive. */
  readonly nextRuns: readonly NextRun[]
  /** The sources that live sync follows. */
  readonly followed: readonly string[]
  /** Newest first, open ones and past ones. */
  readonly recentConditions: readonly StoredCondition[]
  /** What was changed, newest first. */
  readonly changes: readonly AuditEvent[]
}

interface NextRun {
  readonly at: Date
  readonly sources: readonly string[]
}

const RECENT_CONDITIONS = 30
const CHANGES = 50

/** Reads the processes, and the schedules and followed sources of the configurations that they have loaded. */
export async function readSystemData(db: Database, now: number): Promise<SystemData> {
  const [processes, recentConditions, changes] = await Promise.all([
    listProcesses(db),
    listRecentConditions(db, RECENT_CONDITIONS),
    listAuditEvents(db, CHANGES),
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
    nextRuns: [...entries.values()].flatMap((entry) =>
      nextTimes(entry, now, 1).map((at) => ({ at: new Date(at), sources: entry.sources })),
    ),
    followed: [...new Set(configs.flatMap(({ followed }) => followed))],
    recentConditions,
    changes,
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
