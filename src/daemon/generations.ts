import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'

/** The daemon with one configuration. */
export interface Generation {
  /** Works until the signal. */
  work(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface GenerationsOptions {
  /** Reads the configuration and opens everything. @throws what is wrong */
  readonly open: () => Promise<Generation>
  /** Ends it all. */
  readonly signal: AbortSignal
  /** Calls back when the configuration is to be read again. */
  readonly onReload: (listener: () => void) => void
  /** Whether an error says that something is not there yet, so that waiting helps: a message of what is waited for. */
  readonly waitFor: (error: unknown) => string | null
  readonly log: Logger
}

const LONGEST_WAIT_MS = 5_000

/**
 * Runs one generation after the other: a configuration that is read again takes the place of the one before once
 * everything in it has been held against the database; one that is wrong is refused whole, and the old one stays.
 * @throws what is wrong with the first one
 */
export async function generations(options: GenerationsOptions): Promise<void> {
  const { signal, log } = options
  let reload = Promise.withResolvers<void>()
  options.onReload(() => reload.resolve())

  let current = await openFirst(options)
  while (current !== null) {
    const ending = new AbortController()
    const working = current.work(AbortSignal.any([signal, ending.signal]))
    let next: Generation | null = null
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
async function openFirst({ open, waitFor, signal, log }: GenerationsOptions): Promise<Generation | null> {
  let told: string | null = null
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await open()
    } catch (error) {
      const what = waitFor(error)
      if (what === null) throw error
      if (what !== told) log.warn({ reason: (error as Error).message }, `waiting for ${what}`)
      told = what
      await sleep(Math.min(LONGEST_WAIT_MS, 200 * 2 ** attempt), undefined, { signal }).catch(() => {})
    }
  }
  return null
}

async function openNext({ open, log }: GenerationsOptions): Promise<Generation | null> {
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
