/**
 * Wakes the loops that wait for work: what makes the work nudges, and every waiter looks at once. Only a hint: a loop
 * also looks by itself, because the work may come from another process.
 */
export class WakeSignal {
  #notifications = 0
  readonly #waiters = new Set<() => void>()

  notify(): void {
    this.#notifications++
    for (const wake of this.#waiters) wake()
  }

  /** For one loop: what was nudged while it worked is not lost on it, whoever else waits for the same. */
  listen(): WakeListener {
    let seen = this.#notifications
    return {
      wait: async (ms, signal) => {
        if (this.#notifications === seen && !signal.aborted) await this.#waitForNotification(ms, signal)
        seen = this.#notifications
      },
    }
  }

  #waitForNotification(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#waiters.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done, { once: true })
      this.#waiters.add(done)
    })
  }
}

export interface WakeListener {
  /** Waits until nudged (also since the last wait), for `ms` at the most, or until the signal. */
  wait(ms: number, signal: AbortSignal): Promise<void>
}
