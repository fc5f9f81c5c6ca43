import type { Reset } from '../rate-reset.ts'
import { BucketLength } from './bucket-length.ts'
import { meant } from './bounds.ts'
import type { Heard } from './calls.ts'
import { FixedLength } from './fixed-length.ts'
import type { WindowStart } from './fixed-length.ts'
import type { History } from './history.ts'
import { SlidingLength } from './sliding-length.ts'

/** What is known of the service. */
export interface Known {
  /** Only fixed windows are left; or only what is no fixed window. */
  readonly isFixed: boolean
  readonly isRolling: boolean
  /** A length in milliseconds that is not too short for any kind that is left; infinite while there is none. */
  readonly length: number
  /** No window of a kind that is left is shorter. */
  readonly least: number
  /** A window of any kind that is left is no shorter, whichever it is: how far `length` is more than a bound. */
  readonly surely: number
}

/**
 * What kind of service it is, and how long its window: three suspicions, each with bounds for the length that
 * every answer narrows, until the bounds of the wrong ones cross. As long as several are left, the longest
 * length counts, which is safe for each of them.
 */
export class Kinds {
  fixed: FixedLength
  #sliding: SlidingLength
  #bucket: BucketLength
  /** Somebody else's calls are counted too. */
  #isShared = false
  /** A length that was taken for a round one was too short: from then on only what was seen counts. */
  #isOdd = false
  #known: Known | null = null
  readonly #history: History

  constructor(history: History) {
    this.#history = history
    this.fixed = new FixedLength()
    this.#sliding = new SlidingLength(history)
    this.#bucket = new BucketLength(history)
  }

  get known(): Known {
    this.#known ??= this.#conclude()
    return this.#known
  }

  /** @param foreign calls of another client that may be counted besides */
  learn(heard: Heard, limit: number, sent: number, foreign: number): void {
    this.#sliding.learn(heard, sent - heard.call.endedBefore - 1 + foreign)
    this.#bucket.learn(heard, limit, sent, foreign)
    this.#known = null
    if (this.#isNothing) this.forget()
  }

  told(reset: Reset, sentAt: number, receivedAt: number): void {
    this.fixed.told(reset, sentAt, receivedAt)
    this.#known = null
  }

  begun(start: WindowStart): void {
    this.fixed.begun(start)
    this.#known = null
  }

  begunBy(by: number): void {
    this.fixed.begunBy(by)
    this.#known = null
  }

  /** Nothing was wanted for a while. */
  rested(): void {
    this.fixed.rested()
    this.#sliding.rested()
    this.#bucket.rested()
    this.#known = null
  }

  /** Another client was seen, or is gone: true where that is news. */
  share(isShared: boolean): boolean {
    if (this.#isShared === isShared) return false
    this.#isShared = isShared
    this.forget()
    return true
  }

  /** Begins anew: what was learnt contradicts itself, or does not hold any more. */
  forget(): void {
    this.fixed = new FixedLength(this.#isOdd, this.#isShared)
    this.#sliding = new SlidingLength(this.#history)
    this.#bucket = new BucketLength(this.#history)
    this.#known = null
  }

  /** A call was refused although the length said that it could not be. */
  refuted(): void {
    if (Number.isFinite(this.known.length)) this.#isOdd = true
    this.forget()
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

  get #isNothing(): boolean {
    return this.fixed.isRefuted && this.#sliding.bounds.isRefuted && this.#bucket.bounds.isRefuted
  }

  #conclude(): Known {
    const fixed = this.fixed.bounds
    const sliding = this.#sliding.bounds
    const bucket = this.#bucket.bounds
    const isFixed = !this.fixed.isRefuted
    const isRolling = !sliding.isRefuted || !bucket.isRefuted
    return {
      isFixed: isFixed && !isRolling,
      isRolling: !isFixed && isRolling,
      length: Math.max(
        isFixed ? fixed.most : 0,
        sliding.isRefuted ? 0 : this.#isOdd ? sliding.most : meant(sliding, 100),
        bucket.isRefuted ? 0 : bucket.most,
      ),
      surely: Math.min(
        isFixed ? fixed.least : Number.POSITIVE_INFINITY,
        sliding.isRefuted ? Number.POSITIVE_INFINITY : sliding.least,
        bucket.isRefuted ? Number.POSITIVE_INFINITY : bucket.least,
      ),
      least: Math.max(isFixed ? fixed.least : 0, sliding.isRefuted ? 0 : sliding.least),
    }
  }
}
