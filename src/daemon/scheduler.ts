import * as scheduledRuns from '../store/scheduled-runs.ts'
import { describeError, FillrateError } from '../util/error-text.ts'
import { randomUUID } from 'node:crypto'
import type { Log } from '../util/log.ts'
import type { ScheduleEntry } from '../config/config.ts'
import { toAuditOutcome } from '../actions/audit.ts'
import { previousTime, scheduleName } from '../config/cron.ts'
import { decideScheduledRun } from '../domain/schedule.ts'
import type { RunStatus } from '../domain/run.ts'
import type { Database } from '../store/open.ts'
import {
  expiresAfterAbort,
  retryLogLevel,
  retryWhileUnavailable,
  TakeoverGrace,
} from '../store/transaction.ts'
import type { RequestCapability, StoredRequest } from '../store/scheduled-runs.ts'

interface SchedulerDeps {
  readonly db: Database
  readonly log: Log
  /** Identifies this process; unique for each start. */
  readonly owner: string
  /**
   * The time by the clock that all processes share, Postgres's, in milliseconds since the epoch. A
   * process's own clock may be wrong, and a run recorded too early would suppress all runs until then.
   */
  readonly clock: () => Promise<number>
  /** How long a scheduled run is leased without an extension. */
  readonly leaseMs: number
  /** Runs one entry. If aborted, it ends as `interrupted`, with its state saved. */
  readonly run: (entry: ScheduleEntry, options: ScheduledRunOptions) => Promise<ScheduledRunEnd>
  /** Executes what is requested on the dashboard. Absent: nothing. */
  readonly requests?: RequestExecutor
}

export interface ScheduledRunEnd {
  readonly status: RunStatus
  readonly reason: string | null
}

interface RequestExecutor extends RequestCapability {
  readonly execute: (request: StoredRequest, options: ScheduledRunOptions) => Promise<ScheduledRunEnd>
}

const NO_REQUESTS: RequestCapability = { sources: [], service: 0 }

export interface ScheduledRunOptions {
  readonly signal: AbortSignal
  /** Names the budget of this scheduled run, which restarts share. */
  readonly budgetName: string
  readonly onStarted: (run: number) => void
}

/**
 * The schedule of one process. Each scheduled run is a row: the first process to insert it records it for all, and
 * the holder of its lease runs it. So exactly one process runs it, and another one takes over if that process dies.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps
  readonly #entries: ReadonlyMap<string, ScheduleEntry>
  readonly #running = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #grace: TakeoverGrace

  constructor(deps: SchedulerDeps, entries: readonly ScheduleEntry[]) {
    this.#deps = deps
    this.#grace = new TakeoverGrace(deps.db, deps.leaseMs)
    this.#entries = new Map(entries.map((entry) => [scheduleName(entry), entry]))
  }

  /** Records due runs, and starts the ones that can start, and requested ones. */
  async startDue(): Promise<void> {
    if (this.#stopping.signal.aborted) return
    if (this.#entries.size === 0 && this.#deps.requests === undefined) return
    const now = await this.#deps.clock()
    const takesOver = !this.#grace.isRunning()
    try {
      if (this.#entries.size > 0) await this.#recordDue(now)
      while (await this.#startNext(takesOver));
    } catch (error) {
      this.#grace.noteFailure(error)
      throw error
    }
  }

  /** Interrupts running entries; another process, or this one after a restart, finishes them. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#running)
  }

  async #recordDue(now: number): Promise<void> {
    const { db, log } = this.#deps
    const schedules = [...this.#entries.keys()]
    const recorded = await scheduledRuns.latestScheduledRuns(db, schedules, now)
    const due: scheduledRuns.DueScheduledRun[] = []
    for (const [schedule, entry] of this.#entries) {
      const at = previousTime(entry, now)
      const before = recorded.get(schedule)
      if (at === null || (before !== undefined && before.getTime() >= at)) continue
      const fate = decideScheduledRun(at, now, { known: before !== undefined })
      due.push({ schedule, at: new Date(at), sources: entry.sources, ...fate })
    }
    for (const { schedule, at, skipped } of await scheduledRuns.recordScheduledRuns(db, due)) {
      const { state, reason } = due.find((entry) => entry.schedule === schedule) ?? {
        state: 'skipped',
        reason: null,
      }
      if (skipped)
        log.warn(
          { event: 'scheduled_run_skipped', schedule, at },
          'scheduled run skipped: the next one was due before it could start',
        )
      else if (state === 'skipped')
        log.info({ event: 'scheduled_run_skipped', schedule, at, reason }, 'scheduled run skipped')
      else if (reason !== null)
        log.info({ event: 'scheduled_run_late', schedule, at, reason }, 'missed scheduled run starts now')
    }
  }

  async #startNext(takesOver: boolean): Promise<boolean> {
    const { db, log, owner, leaseMs } = this.#deps
    const { claimed, blocked } = await scheduledRuns.claimScheduledRun(db, {
      schedules: [...this.#entries.keys()],
      requests: this.#deps.requests ?? NO_REQUESTS,
      owner,
      token: randomUUID(),
      leaseMs,
      takesOver,
    })
    for (const { schedule, at, by } of blocked)
      log.info(
        { event: 'scheduled_run_queued', schedule, at, by },
        'scheduled run queued: another run of its sources is not finished',
      )
    if (claimed === null) return false
    const { request } = claimed
    const entry = this.#entries.get(claimed.schedule)
    const act = async (options: ScheduledRunOptions): Promise<ScheduledRunEnd> => {
      if (request !== null && this.#deps.requests) return this.#deps.requests.execute(request, options)
      if (entry !== undefined) return this.#deps.run(entry, options)
      throw new Error(`nothing to run for ${claimed.schedule}`)
    }
    const task = this.#execute(claimed, act).finally(() => this.#running.delete(task))
    this.#running.add(task)
    return true
  }

  async #execute(
    claimed: scheduledRuns.ClaimedRun,
    act: (options: ScheduledRunOptions) => Promise<ScheduledRunEnd>,
  ): Promise<void> {
    const { db, log, leaseMs } = this.#deps
    const { schedule, at, attempts, request } = claimed
    // A requested run names who requested it.
    const about = { schedule, at, ...(request !== null && { by: request.by }) }
    log.info({ event: 'scheduled_run_started', ...about, attempts }, 'scheduled or requested run started')
    const lost = new AbortController()
    const timer = setInterval(() => {
      scheduledRuns.extendScheduledRun(db, claimed, leaseMs).then(
        (ours) =>
          ours || lost.abort(new FillrateError(`another process has taken over the run of ${schedule}`)),
        (error: unknown) =>
          log[retryLogLevel(error)](
            { event: 'schedule_lease_failed', schedule, reason: describeError(error) },
            'failed to extend the lease of a scheduled run',
          ),
      )
    }, leaseMs / 3)
    const signal = AbortSignal.any([this.#stopping.signal, lost.signal])
    // A shutdown waits no longer than the lease: another process then ends the run.
    const giveUp = expiresAfterAbort(this.#stopping.signal, leaseMs)
    const keep = (act: () => Promise<void>): Promise<void> => retryWhileUnavailable(act, { giveUp })
    const end = (reason: string | null, outcome: ReturnType<typeof toAuditOutcome>): Promise<void> =>
      keep(() => scheduledRuns.endScheduledRun(db, claimed, reason, outcome))
    try {
      const { status, reason } = await act({
        signal,
        budgetName: `schedule ${schedule} ${at.toISOString()}`,
        onStarted: (run) => void scheduledRuns.attachRun(db, claimed, run).catch(() => {}),
      })
      if (status === 'interrupted' && signal.aborted)
        await keep(() => scheduledRuns.releaseScheduledRun(db, claimed))
      else
        await end(
          // The reason of a requested run is shown beside its outcome.
          status === 'completed' || (request !== null && reason !== null)
            ? reason
            : `${status}: ${reason ?? ''}`,
          toAuditOutcome(status),
        )
    } catch (error) {
      const reason = describeError(error)
      log.error({ event: 'scheduled_run_failed', ...about, reason }, 'scheduled or requested run failed')
      await end(`failed: ${reason}`, 'failed').catch(() => {})
    } finally {
      clearInterval(timer)
    }
  }
}
