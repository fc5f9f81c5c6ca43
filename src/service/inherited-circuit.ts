/** An open circuit as it is kept for the process that calls next. */
export interface CircuitSnapshot {
  /** Until the next probe, in milliseconds. */
  readonly probeInMs: number
  /** The pause before it, which doubles when it fails. */
  readonly pauseMs: number
}

/**
 * An outage of the service that a process before this one met: its circuit stays open here, and one call probes it
 * when its time has come. Otherwise every new process would try a service that is down as if it knew nothing.
 */
export class InheritedCircuit {
  #pauseMs: number
  #probeAt: number
  #isProbing = false
  readonly #longestPauseMs: number

  constructor(kept: CircuitSnapshot, now: number, longestPauseMs: number) {
    this.#pauseMs = Math.max(1, kept.pauseMs)
    this.#probeAt = now + Math.max(0, kept.probeInMs)
    this.#longestPauseMs = longestPauseMs
  }

  get isProbing(): boolean {
    return this.#isProbing
  }

  get probeAt(): number {
    return this.#probeAt
  }

  get pauseMs(): number {
    return this.#pauseMs
  }

  /** Whether a call may be made now, as the one that probes. */
  canProbe(now: number): boolean {
    return !this.#isProbing && now >= this.#probeAt
  }

  /** @throws what the call throws */
  async probe<T>(call: () => Promise<T>): Promise<T> {
    this.#isProbing = true
    try {
      return await call()
    } finally {
      this.#isProbing = false
    }
  }

  /** The probe failed. */
  extendPause(now: number, retryAfterMs: number): void {
    this.#pauseMs = Math.min(this.#pauseMs * 2, this.#longestPauseMs)
    this.#probeAt = now + Math.max(this.#pauseMs, retryAfterMs)
  }
}
