import { Bounds } from './bounds.ts'
import type { Heard } from './calls.ts'
import type { History } from './history.ts'

interface Sample {
  readonly sentAt: number
  readonly receivedAt: number
  readonly used: number
  /** Calls that had ended when it was sent, and when it was answered; and calls on the wire by then. */
  readonly endedBefore: number
  readonly ended: number
  readonly outstanding: number
}

/**
 * How long a bucket takes to refill, if it is a bucket that is refilled evenly. What came back between two
 * answers is the calls made less what Remaining fell by; the limit over that rate is the length.
 */
export class BucketLength {
  readonly bounds = new Bounds()
  readonly #history: History
  #samples: Sample[] = []
  #spacing = 1

  constructor(history: History) {
    this.#history = history
  }

  /** Nothing was wanted for a while: the bucket may have been full for most of it. */
  rested(): void {
    this.#samples = []
    this.#spacing = 1
  }

  /**
   * @param sent calls sent in all by the time of the answer
   * @param foreign calls of another client that may be counted besides
   */
  learn({ call, receivedAt, used, isCounted }: Heard, limit: number, sent: number, foreign: number): void {
    if (used === null || !isCounted) return
    for (const earlier of this.#samples) {
      // A header rounds the tokens down: one more or less may have come back.
      const least = this.#surelyBetween(earlier, call.endedBefore) + earlier.used - used - 1
      if (least > 0) this.bounds.atMost((limit * (receivedAt - earlier.sentAt)) / least)
      // Only while it was certainly not full, because a full bucket gets nothing back.
      const isNeverFull = used > sent - earlier.endedBefore + foreign
      const most = sent - earlier.endedBefore - 1 + earlier.used - used + foreign + 1
      const time = call.sentAt - earlier.receivedAt
      if (isNeverFull && time > 0) this.bounds.atLeast((limit * time) / most)
    }
    const ended = this.#history.length
    const { endedBefore } = call
    this.#keep({ sentAt: call.sentAt, receivedAt, used, endedBefore, ended, outstanding: sent - ended })
  }

  /** Calls that were certainly counted after the earlier answer's call, up to one that was sent then. */
  #surelyBetween(earlier: Sample, endedBefore: number): number {
    const both = Math.min(earlier.ended, endedBefore)
    const after = this.#history.countedUpTo(endedBefore) - this.#history.countedUpTo(both)
    return after + 1 - (earlier.ended - both) - earlier.outstanding
  }

  /** Keeps few samples, ever further apart. */
  #keep(sample: Sample): void {
    const last = this.#samples.at(-1)
    if (last !== undefined && sample.receivedAt - last.receivedAt < this.#spacing) return
    this.#samples.push(sample)
    if (this.#samples.length <= samplesKept) return
    this.#samples = this.#samples.filter((_, index) => index % 2 === 0)
    this.#spacing *= 2
  }
}

const samplesKept = 32
