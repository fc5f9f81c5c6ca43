/**
 * What the limit would have permitted while there was work: somebody waited for a permit, or a call was under way.
 * Idle time permits nothing. The window's length is learnt late, so time is counted, and turned into calls by what
 * is known in the end; only a change of the limit begins another reckoning.
 */
export class Permitted {
  #before = 0
  #busyMs = 0
  #since: number | null = null
  #limit: number | null = null
  #windowMs: number | null = null

  note(now: number, isBusy: boolean, limit: number | null, windowMs: number | null): void {
    if (this.#since !== null) this.#busyMs += now - this.#since
    this.#since = isBusy ? now : null
    if (limit !== this.#limit && this.#limit !== null && this.#windowMs !== null) {
      this.#before += (this.#busyMs * this.#limit) / this.#windowMs
      this.#busyMs = 0
    }
    this.#limit = limit
    this.#windowMs = windowMs ?? this.#windowMs
  }

  /** Null while there is no limit, or its window is not known. */
  calls(now: number): number | null {
    if (this.#limit === null || this.#windowMs === null) return null
    const busyMs = this.#busyMs + (this.#since === null ? 0 : now - this.#since)
    return Math.floor(this.#before + (busyMs * this.#limit) / this.#windowMs)
  }
}
