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

  /** Calls on the wire, of whatever window, may be the first of this one: they count among the few. */
  begin(window: number, limit: number): void {
    const { ended, sent, granted } = this.#calls
    this.#window = window
    this.#until = Math.max(ended + size(limit), sent + granted + least)
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

  /** Answered, or lost. */
  answered(call: Call, hasHeader: boolean): void {
    if (this.#window === null) return
    if (call.window !== this.#window) this.#until++
    else if (hasHeader) this.#window = null
    else this.#until += 2
  }
}

const least = 4

const size = (limit: number): number => Math.min(32, Math.max(least, Math.floor(limit / 3)))
