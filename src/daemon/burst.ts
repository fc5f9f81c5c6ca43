import { setTimeout as sleep } from 'node:timers/promises'

/** So many deliveries within so many milliseconds are a burst. */
const MANY = 40
const WITHIN_MS = 500
/** How long the settling stands back in a burst, between two ticks. */
const BACK_MS = 400

/**
 * Keeps the settling of deliveries out of the way of those that still come: their senders wait for an answer, and what is
 * stored does not. In a burst it goes on slowly, and makes up for it afterwards.
 */
export class Burst {
  readonly #came: number[] = []
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  came(): void {
    this.#came.push(this.#now())
    if (this.#came.length > MANY) this.#came.shift()
  }

  get isOn(): boolean {
    const [oldest] = this.#came
    return this.#came.length === MANY && oldest !== undefined && this.#now() - oldest < WITHIN_MS
  }

  /** Waits while a burst is on, but not for long. */
  async standBack(signal: AbortSignal): Promise<void> {
    if (this.isOn) await sleep(BACK_MS, undefined, { signal }).catch(() => {})
  }
}
