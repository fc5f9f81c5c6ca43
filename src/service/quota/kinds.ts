import { BucketLength } from './bucket-length.ts'
import { meant } from './bounds.ts'
import type { Heard } from './calls.ts'
import { FixedLength } from './fixed-length.ts'
import type { History } from './history.ts'
import { SlidingLength } from './sliding-length.ts'

/**
 * What kind of service it is, and how long its window: three suspicions, each with bounds for the length that
 * every answer narrows, until the bounds of the wrong ones cross. As long as several are left, the longest
 * length counts, which is safe for each of them.
 */
export class Kinds {
  fixed = new FixedLength()
  #sliding: SlidingLength
  #bucket: BucketLength
  readonly #history: History

  constructor(history: History) {
    this.#history = history
    this.#sliding = new SlidingLength(history)
    this.#bucket = new BucketLength(history)
  }

  /** Only fixed windows are left. */
  get isFixed(): boolean {
    return !this.fixed.isRefuted && this.#sliding.bounds.isRefuted && this.#bucket.bounds.isRefuted
  }

  /** Only a sliding window or a bucket is left. */
  get isRolling(): boolean {
    return this.fixed.isRefuted && !this.#isNothing
  }

  get #isNothing(): boolean {
    return this.fixed.isRefuted && this.#sliding.bounds.isRefuted && this.#bucket.bounds.isRefuted
  }

  /** A length in milliseconds that is not too short for any kind that is left; infinite while there is none. */
  get length(): number {
    const { fixed } = this
    const sliding = this.#sliding.bounds
    const bucket = this.#bucket.bounds
    return Math.max(
      fixed.isRefuted ? 0 : fixed.bounds.most,
      sliding.isRefuted ? 0 : meant(sliding, 100),
      bucket.isRefuted ? 0 : bucket.most,
    )
  }

  /** No window of a kind that is left is shorter. */
  get least(): number {
    const sliding = this.#sliding.bounds
    return Math.max(this.fixed.isRefuted ? 0 : this.fixed.bounds.least, sliding.isRefuted ? 0 : sliding.least)
  }

  learn(heard: Heard, limit: number, sent: number): void {
    this.#sliding.learn(heard, sent - heard.call.endedBefore - 1)
    this.#bucket.learn(heard, limit, sent)
    if (this.#isNothing) this.forget()
  }

  describe(): string {
    const show = (
      name: string,
      isRefuted: boolean,
      { least, most }: { least: number; most: number },
    ): string => `${name}${isRefuted ? ' refuted' : ''} ${Math.round(least)}..${Math.round(most)}`
    return [
      show('fixed', this.fixed.isRefuted, this.fixed.bounds),
      show('sliding', this.#sliding.bounds.isRefuted, this.#sliding.bounds),
      show('bucket', this.#bucket.bounds.isRefuted, this.#bucket.bounds),
    ].join(', ')
  }

  /** Begins anew: what was learnt contradicts itself, or does not hold any more. */
  forget(): void {
    this.fixed = new FixedLength()
    this.#sliding = new SlidingLength(this.#history)
    this.#bucket = new BucketLength(this.#history)
  }
}
