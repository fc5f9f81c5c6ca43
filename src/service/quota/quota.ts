import { parseRetryAfter } from '../retry-after.ts'
import { readRateHeaders } from '../rate-headers.ts'
import type { Headers } from '../rate-headers.ts'
import { Calls } from './calls.ts'
import type { Call } from './calls.ts'
import { ClockOffset } from './clock-offset.ts'
import { Halt } from './halt.ts'
import { Opening } from './opening.ts'
import { RemainingReckoning } from './remaining.ts'
import { Renewal } from './renewal.ts'

export type QuotaState = 'cold' | 'unlimited' | 'learning' | 'stopped'

/**
 * What a key's limit is and how much of it is left: a state machine over (event, now), without a clock, a timer
 * or a queue. All times are milliseconds since the epoch.
 */
export class Quota {
  limit: number | null = null
  windowMs: number | null = null
  readonly calls = new Calls()
  readonly #offset = new ClockOffset()
  readonly #opening = new Opening()
  readonly #halt = new Halt()
  readonly #remaining = new RemainingReckoning(this.calls)
  readonly #renewal = new Renewal(this.#offset)
  #isLimited = false

  state(now: number): QuotaState {
    if (this.#halt.isOn(now)) return 'stopped'
    if (this.#isLimited) return 'learning'
    return this.#opening.isUnlimited ? 'unlimited' : 'cold'
  }

  get throttled(): number {
    return this.#halt.refusals
  }

  /** How many permits may be granted now, beyond those that are. */
  grantable(now: number): number {
    if (this.#halt.isOn(now)) return 0
    const { granted, outstanding } = this.calls
    if (!this.#isLimited) return Math.max(0, this.#opening.open - outstanding - granted)
    if (this.#remaining.available() <= 0 && !this.calls.isMoving && this.#renewal.isDue(now)) {
      this.#renewal.spend(now)
      this.#remaining.allow(1)
    }
    return Math.max(0, this.#remaining.available())
  }

  /** When `grantable` may rise by the passing of time alone; null where only an answer can raise it. */
  nextLook(now: number): number | null {
    if (this.#halt.isOn(now)) return this.#halt.until
    if (!this.#isLimited || this.calls.isMoving) return null
    return this.#renewal.dueAt
  }

  grant(count: number): void {
    this.calls.granted += count
  }

  giveBack(count: number): void {
    this.calls.granted = Math.max(0, this.calls.granted - count)
  }

  sent(now: number): Call {
    return this.calls.send(now)
  }

  lost(_call: Call, now: number): void {
    this.calls.ended++
    this.#renewal.postpone(now)
  }

  answered(call: Call, answer: { status: number; headers: Headers }, now: number): void {
    this.calls.ended++
    const rate = readRateHeaders(answer.headers)
    if (rate.date !== null) this.#offset.learn(rate.date, call.sentAt, now)
    if (rate.limit !== null) this.limit = rate.limit
    if (rate.reset !== null) this.#renewal.learn(rate.reset, now)
    if (answer.status === 429) {
      this.#refused(call, answer.headers, now)
      return
    }
    this.#halt.accepted(call.sentAt)
    if (rate.remaining !== null) {
      this.#isLimited = true
      this.#remaining.learn(call, rate.remaining)
    } else if (!this.#isLimited) {
      this.#opening.answered()
    } else if (this.#remaining.available() <= 0) {
      // After the renewal a call passed, and its answer says nothing: one by one, until a header is seen.
      this.#remaining.allow(1)
    }
  }

  #refused(call: Call, headers: Headers, now: number): void {
    const wait = parseRetryAfter(headers['retry-after'], this.#offset.read(now))
    this.#halt.refused(call.sentAt, now, wait, this.#renewal.knownUntil)
    this.#renewal.notBefore(this.#halt.until)
    this.#remaining.forget()
    if (!this.#isLimited) this.#opening.refused(this.calls.outstanding + 1)
  }
}
