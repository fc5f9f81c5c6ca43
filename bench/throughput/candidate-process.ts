import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import type { Measured, Outcome, Task } from './candidate.ts'

// As the published program does, for all candidates: once for all of their bundles (`.cache/bench-…/bench/throughput`).
enableCompileCache(join(import.meta.dirname, '../../../compile'))

/** The process of one candidate, so that its peak memory is its own. Its only argument is the task, as JSON. */
const task = JSON.parse(process.argv[2] ?? '') as Task
const run = await load(task)
const outcome = await run()
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
const measured: Measured = {
  ...outcome,
  peakBytes: maxRSS * 1024,
  cpuMs: (userCPUTime + systemCPUTime) / 1_000,
}
process.send?.(measured)

/** Loads only what this candidate needs: the plain script must not load Fillrate's modules. */
async function load({ candidate }: Task): Promise<() => Promise<Outcome>> {
  if (candidate === 'plain') {
    const { runPlainScript } = await import('./plain-script.ts')
    return () => runPlainScript(task)
  }
  if (candidate === 'graphile-worker' || candidate === 'pg-boss') {
    const { runGraphileWorker, runPgBoss } = await import('./job-queues.ts')
    return () => (candidate === 'pg-boss' ? runPgBoss(task) : runGraphileWorker(task))
  }
  const { runFillrate } = await import('./fillrate.ts')
  return () => runFillrate(task, candidate)
}
