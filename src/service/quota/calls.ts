/** One call on the wire, with what was known when it was sent. */
export interface Call {
  /** 1 for the first call, counted up. */
  readonly order: number
  readonly sentAt: number
  /** Calls that had been answered by then: they reached the service before this one. */
  readonly answeredBefore: number
}

/** Counts the calls. All of the quota's reckoning is made of these few numbers. */
export class Calls {
  /** Promised to somebody, and not yet on the wire. */
  granted = 0
  sent = 0
  /** Answered or lost. */
  ended = 0

  get outstanding(): number {
    return this.sent - this.ended
  }

  /** Whether something is on its way that will tell more. */
  get isMoving(): boolean {
    return this.outstanding > 0 || this.granted > 0
  }

  send(at: number): Call {
    this.granted = Math.max(0, this.granted - 1)
    this.sent++
    return { order: this.sent, sentAt: at, answeredBefore: this.ended }
  }
}
