import { undoRun } from '../actions/undo/undo.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { loopTask, repeating, type WorkerTask } from '../runs/loop.ts'
import type { MaintenanceDeps } from '../runs/maintenance.ts'
import { executeRuns, type ServiceProcess } from '../runs/run-services.ts'
import type { ExecuteRunOptions } from '../runs/run.ts'
import type { RequestedUndo } from '../domain/requested-run.ts'
import type { RunSpec } from '../domain/run.ts'
import { readDatabaseTime } from '../store/scheduled-runs.ts'
import {
  Scheduler,
  type RequestExecutor,
  type ScheduledRunEnd,
  type ScheduledRunOptions,
} from './scheduler.ts'

/** How long a run of the daemon waits for its deliveries when nothing else is left, as `fillrate run` does by default. */
const DELIVERY_WAIT_MS = 30 * 60_000

/** Executes a run in the workers of this process. */
export const runInWorkers = (
  services: readonly ServiceProcess[],
  run: RunSpec & Pick<ExecuteRunOptions, 'trigger' | 'dryRun' | 'mixed'>,
  options: ScheduledRunOptions,
): Promise<ScheduledRunEnd> => executeRuns(services, { ...run, ...options, waitMs: DELIVERY_WAIT_MS })

/** Executes what is requested on the dashboard, in the process that calls the service. */
export function createRequestExecutor(
  deps: MaintenanceDeps,
  services: readonly ServiceProcess[],
): RequestExecutor {
  return {
    kinds: ['run', 'undo'],
    sources: [...deps.sources.keys(), ...(deps.brokenSources?.keys() ?? [])],
    service: deps.service,
    execute: ({ work }, options) => {
      if (work.kind === 'undo') return undoRequested(deps, work, options)
      const dryRun = work.isDryRun ? { sample: 0 } : null
      return runInWorkers(services, { ...work, trigger: 'manual', dryRun }, options)
    },
  }
}

async function undoRequested(
  deps: MaintenanceDeps,
  { run }: RequestedUndo,
  { signal, onStarted }: ScheduledRunOptions,
): Promise<ScheduledRunEnd> {
  const { status, changes } = await undoRun(deps, { run, dryRun: false, signal, onStarted })
  return { status, reason: `${changes.restored} of ${changes.total} writes reverted` }
}

const POLL_INTERVAL_MS = 1_000

/**
 * The task of a process without runs, `fillrate serve`: it executes requested undos, which call nothing. Requested
 * runs wait for a daemon.
 */
export function createUndoTask(
  deps: MaintenanceDeps,
  signal: AbortSignal,
): { readonly task: WorkerTask; readonly stop: () => Promise<void> } {
  const { db, log, owner } = deps
  const scheduler = new Scheduler(
    {
      db,
      log,
      owner,
      clock: () => readDatabaseTime(db),
      leaseMs: LEASE_MS,
      run: () => Promise.reject(new Error('there is no schedule')),
      requests: {
        kinds: ['undo'],
        sources: [],
        service: deps.service,
        execute: ({ work }, options) =>
          work.kind === 'undo'
            ? undoRequested(deps, work, options)
            : Promise.reject(new Error('this process executes no runs')),
      },
    },
    [],
  )
  const poll = async (): Promise<number> => {
    await scheduler.startDue()
    return POLL_INTERVAL_MS
  }
  return {
    task: loopTask(repeating({ name: 'requests', log, signal }, poll)),
    stop: () => scheduler.stop(),
  }
}
