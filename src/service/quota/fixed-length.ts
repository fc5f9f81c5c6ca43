import type { Reset } from '../rate-reset.ts'
import { Bounds, meant } from './bounds.ts'
import { WindowEnds } from './window-ends.ts'

/** When one window began, as far as is known once its first answer is in. */
export interface WindowStart {
  /** It began no earlier, and no later, on our clock. */
  readonly after: number
  readonly by: number
  /** When the first call was sent that may have been in the window before it. */
  readonly lastFirstSentAt: number
}

/**
 * How long a fixed window is. From below: a call sent so long after the window's first answer was still counted
 * in it. From above it depends on what starts a window, which no header says, so the worse of both holds.
 *
 * - The first request starts it: then not before that was sent, and the next window's first answer ends it. Over
 *   several windows in a row what the answers took counts once.
 * - The clock starts it, at any moment before the first request: then several windows in a row took at least so
 *   many lengths. Such windows are set in whole or half seconds.
 *
 * And the ends that Reset tells bound it, whatever starts a window.
 */
export class FixedLength {
  /** A call saw Remaining rise by a part: no window does that. */
  #hasParts = false
  #least = 0
  #mostFromRequest = Number.POSITIVE_INFINITY
  #mostOnClock = Number.POSITIVE_INFINITY
  readonly #ends = new WindowEnds()
  #starts: WindowStart[] = []

  readonly #isOdd: boolean
  readonly #isShared: boolean

  /**
   * @param isOdd nothing is to be taken for a round length
   * @param isShared somebody else's request may have started a window, and made Remaining rise by less
   */
  constructor(isOdd = false, isShared = false) {
    this.#isOdd = isOdd
    this.#isShared = isShared
  }

  get isRefuted(): boolean {
    return this.#hasParts || this.bounds.isRefuted
  }

  get bounds(): Bounds {
    const bounds = new Bounds()
    bounds.atLeast(this.#least)
    bounds.atMost(this.#isShared ? this.#onClock : Math.max(this.hoped, this.#onClock))
    bounds.atMost(this.#meant(this.#ends.most))
    return bounds
  }

  /** The longest as it was seen, before it is taken for a round one. */
  get seenMost(): number {
    const seen = this.#isShared ? this.#mostOnClock : Math.max(this.#mostFromRequest, this.#mostOnClock)
    return Math.min(this.#ends.most, seen)
  }

  /** The longest if the first request starts a window. */
  get hoped(): number {
    if (this.#isShared) return this.#meant(Math.min(this.#ends.most, this.#mostOnClock), 500)
    return this.#meant(Math.min(this.#ends.most, this.#mostFromRequest))
  }

  /** The longest if the clock starts windows. */
  get #onClock(): number {
    const most = this.#meant(this.#mostOnClock, 500)
    if (this.#isShared || this.#isOdd || !Number.isFinite(this.#mostFromRequest)) return most
    return this.#ends.onClock(this.#least, most, 500)
  }

  #meant(most: number, step = stepOf(most)): number {
    return this.#isOdd ? most : meant({ least: this.#least, most }, step)
  }

  /** @param sentAt and when its answer came, of the call whose answer told it */
  told(reset: Reset, sentAt: number, receivedAt: number): void {
    this.#ends.learn(reset, sentAt, receivedAt)
  }

  /** Nothing was wanted for a while: what comes after it says nothing of how long the window before it was. */
  rested(): void {
    this.#starts = []
    this.#ends.rested()
  }

  atLeast(length: number): void {
    this.#least = Math.max(this.#least, length)
  }

  rosePartly(): void {
    this.#hasParts = !this.#isShared
  }

  /** When the latest window began is known better. */
  begunBy(by: number): void {
    const last = this.#starts.pop()
    if (last !== undefined) this.begun({ ...last, by: Math.min(last.by, by) })
  }

  /** A window has begun, after the one that was learnt of before. */
  begun(start: WindowStart): void {
    for (const [index, earlier] of this.#starts.entries()) {
      const windows = this.#starts.length - index
      this.#mostOnClock = Math.min(this.#mostOnClock, (start.by - earlier.after) / windows)
      if (this.#isShared) continue
      const { lastFirstSentAt } = this.#starts[index + 1] ?? start
      this.#mostFromRequest = Math.min(this.#mostFromRequest, (start.by - lastFirstSentAt) / windows)
    }
    this.#starts.push(start)
    if (this.#starts.length > startsKept) this.#starts.shift()
  }
}

/** Short windows are multiples of a tenth of a second, long ones of half a second. */
const stepOf = (length: number): number => (length < 5000 ? 100 : 500)

const startsKept = 16
