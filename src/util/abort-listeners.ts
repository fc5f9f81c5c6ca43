/** The callbacks of a signal, and the one listener that they share. */
interface SharedListener {
  readonly callbacks: Set<() => void>
  readonly listener: () => void
}

const shared = new WeakMap<AbortSignal, SharedListener>()

/**
 * Runs a callback when the signal aborts, like a listener. All that wait for a signal share one listener, because a run adds and
 * removes one for each call.
 * @param signal not aborted yet: nothing runs for one that is
 * @param callback to be removed by `removeAbortListener` when it is needed no more; must not throw
 * @example
 * addAbortListener(signal, finish)
 * await answered
 * removeAbortListener(signal, finish)
 */
export function addAbortListener(signal: AbortSignal, callback: () => void): void {
  const found = shared.get(signal)
  if (found !== undefined) {
    found.callbacks.add(callback)
    return
  }
  const callbacks = new Set([callback])
  const listener = (): void => {
    for (const one of callbacks) one()
    shared.delete(signal)
  }
  shared.set(signal, { callbacks, listener })
  signal.addEventListener('abort', listener, { once: true })
}

/** Without anything that waits, no listener is left: Node keeps a combined signal in memory for as long as it has one. */
export function removeAbortListener(signal: AbortSignal, callback: () => void): void {
  const found = shared.get(signal)
  if (found === undefined || !found.callbacks.delete(callback) || found.callbacks.size > 0) return
  shared.delete(signal)
  signal.removeEventListener('abort', found.listener)
}
