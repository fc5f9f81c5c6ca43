import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'

/** The daemon with one configuration. */
export interface Instance {
  /** Works until the signal. */
  run(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface ReloadOptions {
  /** Reads the configuration and opens everything. @throws what is wrong */
  readonly open: () => Promise<Instance>
  /** Ends it all. */
  readonly signal: AbortSignal
  /** Calls back when the configuration is to be read again. */
  readonly onReload: (listener: () => void) => void
  /** Whether an error says that something is not there yet, so that waiting helps: a message of what is waited for. */
  readonly waitFor: (error: unknown) => string | null
  readonly log: Logger
}

const MAX_RETRY_MS = 5_000

/**
 * Runs one generation after the other: a configuration that is read again takes the place of the one before once
 * everything in it has been held against the database; one that is wrong is refused whole, and the old one stays.
 * @throws what is wrong with the first one
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
    if (current !== null) log.info('the new configuration is in force')
  }
}

/** Waits for what is not there yet. Null: told to stop meanwhile. */
async function openFirst({ open, waitFor, signal, log }: ReloadOptions): Promise<Instance | null> {
  let told: string | null = null
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await open()
    } catch (error) {
      const what = waitFor(error)
      if (what === null) throw error
      if (what !== told) log.warn({ reason: (error as Error).message }, `waiting for ${what}`)
      told = what
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
      'the configuration was read again and is wrong: the old one stays',
    )
    return null
  }
}
