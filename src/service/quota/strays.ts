interface Stray {
  readonly sentAt: number
  readonly endedAt: number
  readonly isCounted: boolean
}

/**
 * Calls of which no answer told whether they were counted in the window that is open or in one before it. The count
 * tells it later: where a call of this window is the n-th, no more than n - 1 of the calls that had ended by then are
 * in it, and these are the last that reached the service.
 */
export class Strays {
  #strays: Stray[] = []
  /** When the first of them was sent. */
  firstSentAt = Number.POSITIVE_INFINITY

  begin(strays: readonly Stray[]): void {
    this.#keep([...strays])
  }

  add(stray: Stray): void {
    this.#strays.push(stray)
    this.firstSentAt = Math.min(this.firstSentAt, stray.sentAt)
  }

  /**
   * @param most so many calls, at most, were counted in this window when a call came that was sent at `sentAt`
   * @returns the latest moment at which a call was sent that is not in this window; null where none is known to be
   */
  notOf(most: number, sentAt: number): number | null {
    const counted = this.#strays.filter((stray) => stray.isCounted && stray.endedAt <= sentAt)
    if (counted.length <= most) return null
    const before =
      counted.map((stray) => stray.sentAt).sort((a, b) => a - b)[counted.length - 1 - most] ?? null
    if (before === null) return null
    const isOld = (stray: Stray): boolean =>
      stray.endedAt <= before || (most === 0 && stray.isCounted && stray.endedAt <= sentAt)
    this.#keep(this.#strays.filter((stray) => !isOld(stray)))
    return before
  }

  /**
   * @param least so many of them, at least, are in this window
   * @returns when it had begun for certain; null where none is known to be in it, or where more are than there were:
   *   then somebody else is counted
   */
  startedBy(least: number): number | null {
    if (least < 1 || least > this.#strays.length) return null
    const ended = this.#strays.map((stray) => stray.endedAt).sort((a, b) => b - a)
    return ended[least - 1] ?? null
  }

  #keep(strays: Stray[]): void {
    this.#strays = strays
    this.firstSentAt = Number.POSITIVE_INFINITY
    for (const { sentAt } of strays) this.firstSentAt = Math.min(this.firstSentAt, sentAt)
  }
}
