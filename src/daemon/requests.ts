import { undoRun } from '../actions/undo/undo.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { loopTask, repeating, type WorkerTask } from '../runs/loop.ts'
import type { MaintenanceDeps } from '../runs/maintenance.ts'
import { executeRun, type RunDeps } from '../runs/run.ts'
import type { Workers } from '../runs/workers.ts'
import type { RunReport } from '../runs/report.ts'
import type { Tx } from '../store/transaction.ts'
import type { RequestedPass, RequestedUndo } from '../domain/requested-run.ts'
import { readDatabaseTime } from '../store/scheduled-runs.ts'
import type { Notifier } from './notifier.ts'
import {
  Scheduler,
  type RequestExecutor,
  type ScheduledRunEnd,
  type ScheduledRunOptions,
} from './scheduler.ts'

/** How long a requested run waits for its deliveries when nothing else is left, as `fillrate run` does by default. */
const REQUEST_DELIVERY_WAIT_MS = 30 * 60_000

/** Executes what is requested on the dashboard, in the process that calls the service. */
export function createRequestExecutor(
  deps: RunDeps & { readonly notifier: Notifier },
  workers: Workers,
): RequestExecutor {
  return {
    kinds: ['run', 'undo'],
    sources: [...deps.sources.keys(), ...(deps.brokenSources?.keys() ?? [])],
    service: deps.service,
    execute: ({ work }, options) =>
      work.kind === 'run' ? runRequested(deps, workers, work, options) : undoRequested(deps, work, options),
  }
}

async function runRequested(
  deps: RunDeps & { readonly notifier: Notifier },
  workers: Workers,
  { sources: names, limit, budget, where, route, isDryRun }: RequestedPass,
  { signal, budgetName, onStarted }: ScheduledRunOptions,
): Promise<ScheduledRunEnd> {
  return executeRun(deps, {
    sources: names.map((name) => deps.sources.get(name)).filter((source) => source !== undefined),
    names,
    trigger: 'manual',
    limit,
    budget,
    budgetName,
    where,
    route,
    waitMs: REQUEST_DELIVERY_WAIT_MS,
    signal,
    onStarted,
    dryRun: isDryRun ? { sample: 0 } : null,
    workers,
    ...(!isDryRun && {
      onEnding: (tx: Tx, report: RunReport) =>
        deps.notifier.recordRun(tx, report, { trigger: 'manual', sources: names }),
    }),
  })
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
