import { setTimeout as wait } from 'node:timers/promises'

/** Waits; ends early, without an error, when the signal is aborted, so the caller looks at the signal after. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
