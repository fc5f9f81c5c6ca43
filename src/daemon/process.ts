import type { Config } from '../config/config.ts'
import { startProcessReports } from '../runs/process-reports.ts'
import type { Database } from '../store/open.ts'
import type { ProcessRole } from '../store/processes.ts'
import type { Log } from '../util/log.ts'
import type { OwnTroubles } from './own-troubles.ts'
import { startTroubleWatch, type TroubleNotifier } from './trouble-watch.ts'

/** A short run looks for troubles once, at its end: a look costs Postgres as much as a page of rows. Milliseconds. */
const FIRST_LOOK_MS = 2_000

/** Works as a process that the dashboard lists, and that watches for troubles unless another watch outlives this work. */
export async function workAsProcess<Result>(
  deps: {
    readonly db: Database
    readonly log: Log
    readonly own: OwnTroubles
    readonly config: Config
    readonly notifier: TroubleNotifier
    readonly schedules: () => ReadonlyMap<string, number | null>
    /** The daemon's watch outlives its configuration. */
    readonly isWatched: boolean
  },
  role: ProcessRole,
  work: () => Promise<Result>,
): Promise<Result> {
  const { db, log, own, config, notifier, schedules, isWatched } = deps
  const reports = startProcessReports({ db, log, owner: own.owner }, { role, config })
  const watch = isWatched
    ? null
    : startTroubleWatch({ db, log, own, schedules, notifier: () => notifier, delayMs: FIRST_LOOK_MS })
  try {
    return await work()
  } finally {
    await watch?.stop()
    await reports.stop()
  }
}
