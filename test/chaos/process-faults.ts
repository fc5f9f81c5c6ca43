import { setTimeout as sleep } from 'node:timers/promises'
import {
  PRELOADED,
  expireDeadlines,
  expireLeases,
  finishRun,
  runTrial,
  type ChaosFixture,
} from './fixture.ts'
import { checkInvariants, type InvariantReport } from './invariants.ts'
import type { FaultResult } from './postgres-faults.ts'

/** The log line, or the final error, of a process whose run was taken over. */
export const LEASE_LOST = /lost its lease|taken (?:this run )?for dead/

export interface KillResult extends InvariantReport {
  readonly point: string
  /** The process reached the point and died there. */
  readonly wasKilled: boolean
}

/** Kills a run with SIGKILL when it passes a point for the nth time, lets another process finish, and checks the result. */
export async function killAt(fixture: ChaosFixture, point: string, nth = 1): Promise<KillResult> {
  const trial = await runTrial(fixture, {
    variables: { ...PRELOADED, CHAOS_KILL_AT: point, CHAOS_KILL_NTH: String(nth) },
  })
  try {
    const wasKilled = trial.ended.code === null
    if (wasKilled) await expireLeases(trial.database)
    await finishRun(trial, 2_000)
    await expireDeadlines(trial.database)
    await finishRun(trial, 30_000)
    const report = await checkInvariants(trial, fixture)
    return { point, wasKilled, ...report }
  } finally {
    await trial.close()
  }
}

/**
 * Stops a process in the middle of its calls (SIGSTOP, as when a machine sleeps or a container is frozen) for longer than
 * its leases last. Another process finishes the work. Then the first one resumes, with answers not yet stored.
 */
export async function pauseProcess(fixture: ChaosFixture): Promise<FaultResult> {
  const trial = await runTrial(fixture, {
    sandbox: { latencyAfterMs: [150, 300], jobDelayMs: [100, 300] },
    during: async ({ child, ...running }) => {
      while (running.sandbox.stats().calls.accepted < 6) await sleep(20)
      child?.kill('SIGSTOP')
      await expireLeases(running.database)
      // Deliveries go to the paused process's own port and wait there until it answers again.
      await finishRun({ ...running, port: 0 }, 1_000)
      child?.kill('SIGCONT')
    },
  })
  try {
    const { code, stderr } = trial.ended
    await finishRun(trial, 2_000)
    await expireDeadlines(trial.database)
    await finishRun(trial, 10_000)
    const report = await checkInvariants(trial, fixture)
    // It may end with 1 because it lost its lease: the other process has done its work.
    const isLeaseLost = code === 1 && LEASE_LOST.test(stderr)
    return { faults: 1, code: isLeaseLost ? 0 : code, stderr, ...report }
  } finally {
    await trial.close()
  }
}
