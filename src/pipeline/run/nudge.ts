/**
 * Wakes a loop that waits for work from a step in the same process. Only a hint: a loop also looks by itself, because
 * the work may come from another process.
 */
export class Nudge {
  #wake: (() => void) | null = null
  #nudged = false

  nudge(): void {
    this.#nudged = true
    this.#wake?.()
  }

  /** Waits until nudged (also before this call), for `ms` at the most, or until the signal. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#nudged && !signal.aborted)
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer)
          signal.removeEventListener('abort', done)
          this.#wake = null
          resolve()
        }
        const timer = setTimeout(done, ms)
        signal.addEventListener('abort', done, { once: true })
        this.#wake = done
      })
    this.#nudged = false
  }
}
