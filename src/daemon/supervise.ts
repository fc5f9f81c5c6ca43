import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Step, Works } from '../pipeline/run/works.ts'

const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000

/** Begins a step again when it fails, later each time: one that can't work must not take the others with it. */
export async function supervise(
  { log }: { readonly log: Logger },
  works: Pick<Works, 'fail'>,
  step: Step,
  signal: AbortSignal,
): Promise<void> {
  for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
    const began = performance.now()
    try {
      await step.begin()
      return
    } catch (error) {
      if (signal.aborted) return
      if (performance.now() - began > 10 * LONGEST_PAUSE_MS) pause = FIRST_PAUSE_MS
      log.error({ step: step.name, err: error, ms: pause }, 'a step failed, and is begun again')
      works.fail(error, step.source)
      await sleep(pause, undefined, { signal }).catch(() => {})
    }
  }
}
