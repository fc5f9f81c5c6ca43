import { Bounds } from './bounds.ts'
import type { Heard } from './calls.ts'
import type { History } from './history.ts'

interface Sample {
  readonly sentAt: number
  readonly receivedAt: number
  readonly order: number
  readonly endedBefore: number
  /** Tokens that had come back by then, in all: at least and at most. */
  readonly least: number
  readonly most: number
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

  /**
   * @param sent calls sent in all by the time of the answer
   * @param foreign calls of another client that may be counted besides
   */
  learn({ call, receivedAt, used, isCounted }: Heard, limit: number, sent: number, foreign: number): void {
    if (used === null || !isCounted) return
    const sample = {
      sentAt: call.sentAt,
      receivedAt,
      order: call.order,
      endedBefore: call.endedBefore,
      least: this.#history.countedUpTo(call.endedBefore) + 1 - used,
      most: sent - used,
    }
    for (const earlier of this.#samples) {
      const least = sample.least - earlier.most
      // A header rounds the tokens down: one more or less may have come back.
      if (least > 1) this.bounds.atMost((limit * (receivedAt - earlier.sentAt)) / (least - 1))
      // Only while it was certainly not full, because a full bucket gets nothing back.
      const isNeverFull = used > sent - earlier.endedBefore + foreign
      const most = sample.most - earlier.least + foreign
      const time = call.sentAt - earlier.receivedAt
      if (isNeverFull && time > 0) this.bounds.atLeast((limit * time) / (most + 1))
    }
    this.#keep(sample)
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
