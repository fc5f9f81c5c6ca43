/**
 * Whether somebody else spends the same key, and how much room to leave for that. The service counts more calls
 * than were made here: told in two windows, it is another client (told once, it may have been this one's
 * predecessor). The room is what was seen, more after each refusal, and slowly less while there is none.
 */
export class OtherClient {
  room = 0
  #isSeen = false
  #seenIn: number | null = null
  #quietWindows = 0

  get isSeen(): boolean {
    return this.#isSeen
  }

  /**
   * @param excess calls that the service counted beyond those that can be ours
   * @param window which window it was, by our reckoning
   */
  counted(excess: number, window: number, limit: number): void {
    if (excess < 1) return
    this.#quietWindows = 0
    if (this.#seenIn !== null && this.#seenIn !== window) this.#isSeen = true
    this.#seenIn = window
    if (this.#isSeen) this.room = Math.max(this.room, Math.min(excess + 1, limit / 2))
  }

  /** A call was refused although too few were ours. */
  refused(missing: number, limit: number): void {
    this.#isSeen = true
    this.#quietWindows = 0
    this.room = Math.min(limit / 2, Math.max(this.room * 1.25 + 1, Math.min(missing, this.room * 2 + 2)))
  }

  windowPassed(): void {
    this.room *= 0.98
    this.#quietWindows++
    if (this.#quietWindows <= quietWindows) return
    this.#isSeen = false
    this.#seenIn = null
    this.room = 0
  }
}

/** After so many windows without a sign of it, the other client is gone. */
const quietWindows = 30
