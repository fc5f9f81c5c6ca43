import type { ResponseHead, RequestObserver } from '../exchange.ts'
import type { Call } from './calls.ts'
import type { Quota } from './quota.ts'

/** The observer of one call, which is also told when the call is over without having been sent. */
export interface PermittedCall extends RequestObserver {
  /**
   * The call is over, however it ended. Gives its permit back if nothing was sent (an open circuit, a refused
   * connection); does nothing otherwise, and nothing the second time.
   */
  end(): void
}

/** Calls that may be made now. */
export class Permits {
  readonly count: number
  readonly #quota: Quota
  readonly #now: () => number
  readonly #changed: () => void
  #unused: number

  constructor(quota: Quota, count: number, now: () => number, changed: () => void) {
    this.#quota = quota
    this.count = count
    this.#unused = count
    this.#now = now
    this.#changed = changed
  }

  /** One call. Throws when all permits are used or given back. */
  use(): PermittedCall {
    if (this.#unused === 0) throw new Error(`all ${this.count} permits are used`)
    this.#unused--
    return new ObservedCall(this.#quota, this.#now, this.#changed)
  }

  /** Gives back those not used; nothing was sent for them. Does nothing the second time. */
  release(): void {
    if (this.#unused === 0) return
    this.#quota.giveBack(this.#unused)
    this.#unused = 0
    this.#changed()
  }
}

/**
 * Times are taken from the limiter's own clock and not from the observer's arguments: those are the calendar's,
 * which may be set while a window runs.
 */
class ObservedCall implements PermittedCall {
  readonly #quota: Quota
  readonly #now: () => number
  readonly #changed: () => void
  #call: Call | null = null
  isBan = false
  #isOver = false

  constructor(quota: Quota, now: () => number, changed: () => void) {
    this.#quota = quota
    this.#now = now
    this.#changed = changed
  }

  sent(): void {
    if (this.#call !== null || this.#isOver) return
    this.#call = this.#quota.sent(this.#now())
  }

  answered(answer: ResponseHead): void {
    this.sent()
    if (this.#call === null || this.#isOver) return
    this.#isOver = true
    this.#quota.answered(this.#call, answer, this.#now())
    this.isBan = answer.status === 403 && this.#quota.isBanned
    this.#changed()
  }

  lost(): void {
    if (this.#isOver) return
    if (this.#call === null) {
      this.end()
      return
    }
    this.#isOver = true
    this.#quota.lost(this.#call, this.#now())
    this.#changed()
  }

  end(): void {
    if (this.#isOver || this.#call !== null) return
    this.#isOver = true
    this.#quota.giveBack(1)
    this.#changed()
  }
}
