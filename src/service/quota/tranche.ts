import type { Call, Calls } from './calls.ts'

/**
 * A new window begins with a few calls, and the rest waits for the first header of that window: the limit may
 * have been cut, or somebody else may have spent it. It costs next to nothing, because the rest is spent in the
 * same window.
 */
export class Tranche {
  readonly #calls: Calls
  #window: number | null = null
  #until = 0

  constructor(calls: Calls) {
    this.#calls = calls
  }

  begin(window: number, limit: number): void {
    this.#window = window
    this.#until = this.#calls.sent + this.#calls.granted + size(limit)
  }

  /** How many calls may still be granted. */
  get left(): number {
    if (this.#window === null) return Number.POSITIVE_INFINITY
    return this.#until - this.#calls.sent - this.#calls.granted
  }

  /** A header of this window was seen. */
  get isOpen(): boolean {
    return this.#window === null
  }

  answered(call: Call, hasHeader: boolean): void {
    if (call.window !== this.#window) return
    if (hasHeader) this.#window = null
    else this.#until += 2
  }
}

const size = (limit: number): number => Math.min(32, Math.max(4, Math.floor(limit / 3)))
