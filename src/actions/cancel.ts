import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigProblems } from '../config/problems.ts'
import { Run, type RunState } from '../domain/run.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'

interface CancelOptions {
  readonly run: number
  /** Who cancels it, for the reason of the run. */
  readonly by: string
  /** How long to wait for its end, in milliseconds. */
  readonly waitMs: number
  /** Ends the waiting; the run stays cancelled. */
  readonly signal: AbortSignal
  readonly onCancelled?: () => void
}

export interface CancelReport {
  readonly run: number
  /** `running`: it is cancelled and still finishes what is under way. */
  readonly state: RunState
  readonly reason: string | null
  /** The first to cancel it. */
  readonly cancelled_by: string | null
  readonly follow: boolean
  readonly sources: readonly string[]
}

const POLL_INTERVAL_MS = 200

/**
 * Cancels a run of any process. Its process stops taking work within seconds, finishes what is under way,
 * and ends the run as interrupted. Waiting rows stay waiting, and the next run continues with them.
 * @throws ConfigProblems if there is no such run, or if it has ended
 */
export async function cancelRun(db: Database, options: CancelOptions): Promise<CancelReport> {
  const { run, by, waitMs, signal } = options
  const isRunning = await runs.cancelRunningRun(db, run, by)
  if (!isRunning) throw createNotRunningProblem(run, await runs.findRun(db, run))
  options.onCancelled?.()
  const until = performance.now() + waitMs
  for (;;) {
    const found = await runs.findRun(db, run)
    if (found === null) throw createNotRunningProblem(run, null)
    if (found.state !== Run.running || signal.aborted || performance.now() >= until)
      return {
        run,
        state: found.state,
        reason: found.reason,
        cancelled_by: found.cancelled_by,
        follow: found.options.follow === true,
        sources: found.sources,
      }
    await sleep(POLL_INTERVAL_MS, undefined, { signal }).catch(() => {})
  }
}

const createNotRunningProblem = (run: number, found: runs.StoredRun | null): ConfigProblems =>
  new ConfigProblems('the command', [
    {
      place: 'RUN',
      found:
        found === null
          ? `${run}, and there is no such run`
          : `${run}, which has ended (${found.state}${found.reason === null ? '' : `: ${found.reason}`})`,
      expected: 'a run in progress',
      todo: '`fillrate runs --state running` lists them.',
    },
  ])
