import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'

/** The daemon with one configuration. */
export interface Instance {
  /** Works until the signal aborts. */
  run(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface ReloadOptions {
  /**
   * Reads the configuration and opens everything.
   * @throws if something is wrong
   */
  readonly open: () => Promise<Instance>
  /** Stops the daemon. */
  readonly signal: AbortSignal
  /** Registers a listener for reload requests. */
  readonly onReload: (listener: () => void) => void
  /** What to wait for after an error that may resolve itself; null if waiting does not help. */
  readonly waitFor: (error: unknown) => string | null
  readonly log: Logger
}

const MAX_RETRY_MS = 5_000

/**
 * Runs one instance after another. A reloaded configuration replaces the current one after it passed all checks
 * against the database; an invalid one is rejected as a whole, and the current one stays.
 * @throws if the first configuration is invalid
 */
export async function runWithReload(options: ReloadOptions): Promise<void> {
  const { signal, log } = options
  let reload = Promise.withResolvers<void>()
  options.onReload(() => reload.resolve())

  let current = await openFirst(options)
  while (current !== null) {
    const ending = new AbortController()
    const working = current.run(AbortSignal.any([signal, ending.signal]))
    let next: Instance | null = null
    const failed = working.then(
      () => 'ended' as const,
      () => 'ended' as const,
    )
    while (next === null) {
      const why = await Promise.race([failed, reload.promise.then(() => 'reload' as const)])
      if (why === 'ended') break
      reload = Promise.withResolvers()
      next = await openNext(options)
    }
    ending.abort()
    try {
      await working
    } finally {
      await current.close()
      if (signal.aborted) await next?.close()
    }
    current = signal.aborted ? null : next
    if (current !== null) log.info('new configuration active')
  }
}

/** Retries until everything is available. Null if aborted meanwhile. */
async function openFirst({ open, waitFor, signal, log }: ReloadOptions): Promise<Instance | null> {
  let reported: string | null = null
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await open()
    } catch (error) {
      const what = waitFor(error)
      if (what === null) throw error
      if (what !== reported) log.warn({ reason: (error as Error).message }, `waiting for ${what}`)
      reported = what
      await sleep(Math.min(MAX_RETRY_MS, 200 * 2 ** attempt), undefined, { signal }).catch(() => {})
    }
  }
  return null
}

async function openNext({ open, log }: ReloadOptions): Promise<Instance | null> {
  try {
    return await open()
  } catch (error) {
    log.error(
      { reason: (error as Error).message },
      'reloaded configuration is invalid: keeping the current one',
    )
    return null
  }
}
