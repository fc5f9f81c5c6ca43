import * as runs from '../store/runs.ts'
import { describeError } from '../util/error-text.ts'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  describeInterruption,
  LeaseLostError,
  Run,
  type RunState,
  type RunStatus,
  type StoredRunOptions,
} from '../domain/run.ts'
import { HEARTBEAT_MS, LEASE_MS, type Deps, type TableDeps } from '../pipeline/deps.ts'
import { retryLogLevel, retryWhileUnavailable } from '../store/transaction.ts'
import { logWait } from './loop.ts'
import { withoutValues } from './report.ts'

export interface MaintenanceDeps extends Deps {
  /** Identifies this process; unique for each start. */
  readonly owner: string
}

/** What is done for a source as a whole works with, whichever services fill it. */
export type SourceDeps = TableDeps &
  Pick<MaintenanceDeps, 'sources' | 'brokenSources' | 'log' | 'now' | 'random' | 'owner'>

/** Handle of a run that makes no service calls. */
export interface MaintenanceRun {
  readonly id: number
  /** Runs one batch, repeated while Postgres is unavailable. `act` must be idempotent. */
  readonly attempt: <T>(act: () => Promise<T>) => Promise<T>
  /** Aborts on interruption, or when another process has declared the run dead. */
  readonly signal: AbortSignal
}

/**
 * Runs `act` as a leased run that makes no service calls (undo, remap): starts it, heartbeats, and records the
 * result. It is listed among the runs, and its changes can be undone.
 * @throws the error of `act`, after the run was stored as failed
 */
export async function runMaintenance<Report extends { readonly status: RunStatus }>(
  deps: Pick<MaintenanceDeps, 'db' | 'log' | 'owner'>,
  run: { readonly sources: readonly string[]; readonly options: Partial<StoredRunOptions> },
  signal: AbortSignal,
  act: (run: MaintenanceRun) => Promise<Report>,
): Promise<Report> {
  const { db, log, owner } = deps
  const token = randomUUID()
  const id = await runs.insertRun(db, {
    trigger: 'manual',
    sources: run.sources,
    options: { limit: null, budget: 0, where: null, route: 'auto', ...run.options },
    owner,
    token,
    leaseMs: LEASE_MS,
  })
  log.info({ event: 'run_started', run: id, sources: run.sources, ...run.options }, 'run started')
  const finished = new AbortController()
  const lost = new AbortController()
  const cancelled = new AbortController()
  let cancelledBy: string | null = null
  const heartbeat = extendUntilDone(deps, id, token, finished.signal, {
    onLost: () => lost.abort(new LeaseLostError(id, LEASE_MS)),
    onCancelled: (by) => {
      cancelledBy = by
      cancelled.abort()
    },
  })
  const onWait = logWait(log, { run: id })
  const stopping = AbortSignal.any([signal, lost.signal, cancelled.signal])
  const attempt: MaintenanceRun['attempt'] = (batch) =>
    retryWhileUnavailable(batch, { signal: stopping, onWait })
  const close = (
    state: Exclude<RunState, 'running'>,
    reason: string | null,
    totals: object,
  ): Promise<boolean> => attempt(() => runs.closeRun(db, id, token, { state, reason, totals }))
  try {
    const report = await act({ id, attempt, signal: stopping })
    lost.signal.throwIfAborted()
    const interrupted = report.status === 'interrupted'
    await close(
      interrupted ? Run.interrupted : Run.completed,
      interrupted ? describeInterruption(cancelledBy) : null,
      withoutValues(report),
    )
    log.info({ event: 'run_ended', run: id, status: report.status }, 'run ended')
    return report
  } catch (error) {
    const reason = describeError(error)
    // The error matters more than storing the end; another process finds the run dead.
    await close(Run.failed, reason, {}).catch(() => {})
    log.error({ event: 'run_failed', run: id, status: 'failed', reason }, 'run ended')
    throw error
  } finally {
    finished.abort()
    await heartbeat
  }
}

async function extendUntilDone(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  id: number,
  token: string,
  finished: AbortSignal,
  { onLost, onCancelled }: { readonly onLost: () => void; readonly onCancelled: (by: string) => void },
): Promise<void> {
  while (!finished.aborted) {
    await sleep(HEARTBEAT_MS, undefined, { signal: finished }).catch(() => {})
    if (finished.aborted) return
    try {
      const lease = await runs.extendRunLease(db, id, token, LEASE_MS)
      if (lease === null) return onLost()
      if (lease.cancelledBy !== null) onCancelled(lease.cancelledBy)
    } catch (error) {
      log[retryLogLevel(error)](
        { event: 'run_heartbeat_failed', run: id, reason: describeError(error) },
        'heartbeat failed; retrying',
      )
    }
  }
}
