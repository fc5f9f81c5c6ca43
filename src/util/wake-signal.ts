/**
 * Wakes loops that wait for work: the producer notifies, and every listener checks at once. Only a hint: loops also
 * poll, because the work may come from another process.
 */
export class WakeSignal {
  #notifications = 0
  readonly #waiters = new Set<() => void>()

  notify(): void {
    this.#notifications++
    for (const wake of this.#waiters) wake()
  }

  /** A listener for one loop: a notification during its work ends its next wait at once. */
  listen(): WakeListener {
    let seen = this.#notifications
    return {
      wait: async (ms, signal) => {
        if (this.#notifications === seen && !signal.aborted) await this.#waitForNotification(ms, signal)
        const isNotified = this.#notifications > seen
        seen = this.#notifications
        return isNotified
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

interface WakeListener {
  /**
   * Waits for a notification (also one since the last wait), at most `ms` milliseconds, or until the signal.
   * @returns whether there was one
   */
  wait(ms: number, signal: AbortSignal): Promise<boolean>
}
