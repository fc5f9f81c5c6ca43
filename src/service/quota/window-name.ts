/**
 * A fixed window known by its end: calls that were told the same Reset were counted in the same window. Believed only
 * once one Reset was told for longer than a second, because some services tell `now + length` with every answer; and
 * never again once the count began anew under the same Reset.
 */
export class WindowName {
  #end: number | null = null
  #toldAt = 0
  #isCredible = false
  #isRefuted = false

  /** The window is another; null where its end was not told yet. */
  begin(end: number | null, receivedAt: number): void {
    if (end !== null && end === this.#end) this.#isRefuted = true
    this.#end = end
    this.#toldAt = receivedAt
  }

  /** An answer of a call that was certainly counted in this window. */
  learn(end: number | null, receivedAt: number): void {
    if (this.#end === null && end !== null) this.begin(end, receivedAt)
  }

  /** Whether a call that was told this end was certainly counted in this window. */
  isOf(end: number | null, sentAt: number): boolean {
    if (end === null || end !== this.#end) return false
    if (sentAt - this.#toldAt > longerThanRounding) this.#isCredible = true
    return this.#isCredible && !this.#isRefuted
  }
}

/** In milliseconds. */
const longerThanRounding = 1500
