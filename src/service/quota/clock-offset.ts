/**
 * How far the service's clock is ahead of ours, as bounds in milliseconds. Every answer's `Date` bounds it anew:
 * the second that it names lies between our sending and our receiving. Clocks that are off by minutes are common,
 * so no instant that the service names is ever held against our clock without these bounds.
 */
export class ClockOffset {
  #least = Number.NEGATIVE_INFINITY
  #most = Number.POSITIVE_INFINITY
  #at = 0

  get isKnown(): boolean {
    return this.#most !== Number.POSITIVE_INFINITY
  }

  /** @param date the answer's `Date`, a second's resolution, rounded down */
  learn(date: number, sentAt: number, receivedAt: number): void {
    const least = date - receivedAt
    const most = date + second + cached - sentAt
    const drift = Math.max(0, receivedAt - this.#at) * drifting
    this.#at = receivedAt
    this.#least = Math.max(this.#least - drift, least)
    this.#most = Math.min(this.#most + drift, most)
    // A clock was set: what was learnt before is void.
    if (this.#least > this.#most) {
      this.#least = least
      this.#most = most
    }
  }

  /** The latest moment on our clock at which the service's clock can show `instant`. */
  latest(instant: number): number {
    return instant - this.#least
  }

  /** The earliest such moment. */
  earliest(instant: number): number {
    return instant - this.#most
  }

  /** The earliest reading that the service's clock can have at `at` on ours; ours, where nothing is known. */
  read(at: number): number {
    return this.isKnown ? at + this.#least : at
  }
}

const second = 1000

/** Node and others keep a formatted Date for up to a second, and renew it some milliseconds late. */
const cached = 50

/** Two clocks drift apart by up to 0.01% each. */
const drifting = 0.0002
