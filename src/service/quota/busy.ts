/** How long there was work: somebody waited for a permit, or a call was under way. Idle time permits nothing. */
export class Busy {
  #total = 0
  #since: number | null = null

  note(now: number, isBusy: boolean): void {
    if (isBusy) {
      this.#since ??= now
    } else if (this.#since !== null) {
      this.#total += now - this.#since
      this.#since = null
    }
  }

  milliseconds(now: number): number {
    return this.#total + (this.#since === null ? 0 : now - this.#since)
  }
}
