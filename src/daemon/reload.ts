import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigProblems } from '../config/problems.ts'
import { SourceProblems, squashText } from '../sources/problems.ts'
import type { Log } from '../util/log.ts'
import type { ProcessState } from './condition-watch.ts'

/** The daemon with one configuration. */
export interface Instance {
  /** Works until the signal aborts. */
  run(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

interface ReloadOptions {
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
  readonly waitFor: (error: unknown) => 'Postgres' | 'the schema' | null
  readonly state: ProcessState
  readonly log: Log
}

/** An error as one line for a log: of each problem, its place, what was found and what was expected. */
export function toOneLine(error: unknown): string {
  if (error instanceof ConfigProblems)
    return error.problems
      .map(({ place, found, expected }) => squashText(`${place}: found ${found}; expected ${expected}`))
      .join(' | ')
  if (error instanceof SourceProblems)
    return error.problems
      .map(({ source, place, found, expected }) =>
        squashText(`sources.${source}.${place}: found ${found}; expected ${expected}`),
      )
      .join(' | ')
  return squashText(describeError(error))
}

const MAX_RETRY_MS = 5_000

/**
 * Runs one instance after another. A reloaded configuration replaces the current one after it passed all
 * checks against the database; an invalid one is rejected as a whole, and the current one stays.
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
    const over = new AbortController()
    const failed = working
      .catch(() => {})
      .then(() => {
        over.abort()
        return 'ended' as const
      })
    while (next === null) {
      const why = await Promise.race([failed, reload.promise.then(() => 'reload' as const)])
      if (why === 'ended') break
      reload = Promise.withResolvers()
      next = await openNext(options, over.signal)
    }
    ending.abort()
    try {
      await working
    } finally {
      await current.close()
      if (signal.aborted) await next?.close()
    }
    current = signal.aborted ? null : next
    if (current !== null) log.info({ event: 'configuration_active' }, 'new configuration active')
  }
}

/** Retries until everything is available. @returns null if aborted meanwhile */
async function openWhenAvailable(
  open: ReloadOptions['open'],
  isAwaited: (error: unknown) => boolean,
  signal: AbortSignal,
): Promise<Instance | null> {
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await open()
    } catch (error) {
      if (!isAwaited(error)) throw error
      await sleep(Math.min(MAX_RETRY_MS, 200 * 2 ** attempt), undefined, { signal }).catch(() => {})
    }
  }
  return null
}

async function openFirst({ open, waitFor, signal, state }: ReloadOptions): Promise<Instance | null> {
  const isAwaited = (error: unknown): boolean => {
    const what = waitFor(error)
    // That Postgres is away is noticed by the watch.
    if (what === 'the schema') state.isSchemaOutdated = true
    return what !== null
  }
  const opened = await openWhenAvailable(open, isAwaited, signal)
  state.isSchemaOutdated = false
  return opened
}

async function openNext(
  { open, waitFor, state, log }: ReloadOptions,
  signal: AbortSignal,
): Promise<Instance | null> {
  try {
    // Postgres is not at fault for long, and the new configuration is not for it.
    const opened = await openWhenAvailable(open, (error) => waitFor(error) === 'Postgres', signal)
    state.reloadProblem = null
    return opened
  } catch (error) {
    const reason = toOneLine(error)
    state.reloadProblem = reason
    log.error(
      { event: 'reload_refused', reason },
      'the new configuration is not used: correct it, try it with `fillrate check`, and send SIGHUP again',
    )
    return null
  }
}
