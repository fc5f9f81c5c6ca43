import type { CircuitSnapshot } from '../domain/rate-status.ts'

/**
 * A circuit that an earlier leader opened. It stays open here until a single probe call succeeds. Without it, every new
 * process would start calling a service that is known to be down.
 */
export class InheritedCircuit {
  #backoffMs: number
  #probeAt: number
  #isProbing = false
  /** Why it was opened. */
  readonly fault: Pick<CircuitSnapshot, 'reason' | 'isUnreachable'>
  readonly #maxPauseMs: number

  constructor(snapshot: CircuitSnapshot, now: number, maxPauseMs: number) {
    this.#backoffMs = Math.max(1, snapshot.backoffMs)
    this.#probeAt = now + Math.max(0, snapshot.probeInMs)
    this.#maxPauseMs = maxPauseMs
    this.fault = { reason: snapshot.reason, isUnreachable: snapshot.isUnreachable }
  }

  get isProbing(): boolean {
    return this.#isProbing
  }

  get probeAt(): number {
    return this.#probeAt
  }

  get backoffMs(): number {
    return this.#backoffMs
  }

  /** Whether a call may be made now, as the probe. */
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

  /** Doubles the pause after a failed probe. */
  extendPause(now: number, retryAfterMs: number): void {
    this.#backoffMs = Math.min(this.#backoffMs * 2, this.#maxPauseMs)
    this.#probeAt = now + Math.max(this.#backoffMs, retryAfterMs)
  }
}
