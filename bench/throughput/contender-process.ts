import type { Measured, Outcome, Task } from './contender.ts'

/** The process of one contender, and of nothing else, so that its peak memory is its own. Told what to do by `fork`. */
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

/** Loads only what this contender needs: the plain script must not carry Fillrate's modules. */
async function load({ contender }: Task): Promise<() => Promise<Outcome>> {
  if (contender === 'plain') {
    const { runPlainScript } = await import('./plain-script.ts')
    return () => runPlainScript(task)
  }
  const { runFillrate } = await import('./fillrate.ts')
  return () => runFillrate(task, contender)
}
