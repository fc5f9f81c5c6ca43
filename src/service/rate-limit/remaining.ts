import type { Call, CallLedger } from './call-ledger.ts'

/** More answers than can arrive while one call is in flight. */
const MOST_SILENT = 10_000

/**
 * Follows Remaining without knowing windows: however the service counts, Remaining falls only by calls, and rises
 * by itself. Of the answered calls one was counted last, and left no less than the least that the candidates for
 * the last call state. Since then only calls were counted that have no answer, or whose answers state nothing.
 */
export class Remaining {
  /** What is left after calls that may have been the last, and when they were answered: the least first, which is the oldest. */
  #last: { readonly remaining: number; readonly at: number }[] = []
  /** When answers came that stated nothing, of calls that may have been counted since. */
  #silent: number[] = []
  /** When the latest call was sent whose answer stated something: what was answered by then came before it. */
  #sentAt = Number.NEGATIVE_INFINITY
  /**
   * Calls that were allowed in total by the header that allowed the most: those completed when its call was sent, this one
   * and what it leaves. If one of them is refused, another client has called.
   */
  allowed = 0
  #allowedAt = Number.NEGATIVE_INFINITY
  #ceiling = 0
  /** The order of the latest call whose answer stated something. */
  #latest = 0
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get least(): number {
    return this.#last[0]?.remaining ?? Number.POSITIVE_INFINITY
  }

  /** When that was stated. */
  get at(): number {
    return this.#last[0]?.at ?? Number.NEGATIVE_INFINITY
  }

  /** What is left if none of the silent calls was counted after the header; and what is left if all were. */
  get most(): number {
    return this.least - this.#ledger.outstanding - this.#ledger.granted
  }

  get certain(): number {
    return this.most - this.#silent.length
  }

  /** The same where no other client calls: then what a header has allowed once stays allowed, but no more than the latest leaves. */
  get left(): number {
    return Math.max(this.certain, this.#ceiling - this.#ledger.sent - this.#ledger.granted)
  }

  /**
   * How many calls another client has certainly made since the header that allowed the most: Remaining fell by more than
   * all our calls. Only for a call that was sent after that header arrived, because a window may have ended between.
   */
  excess(call: Call, remaining: number): number {
    return call.sentAt < this.#allowedAt ? 0 : Math.max(0, this.allowed - this.#ledger.sent - remaining)
  }

  record(call: Call, remaining: number, at: number): void {
    const allowed = call.completedBefore + 1 + remaining
    if (allowed > this.allowed || this.excess(call, remaining) > 0) {
      this.allowed = allowed
      this.#allowedAt = at
    }
    this.#ceiling = Math.max(this.#ceiling, allowed)
    if (call.order >= this.#latest) this.#ceiling = Math.min(this.#ceiling, this.#ledger.sent + remaining)
    this.#latest = Math.max(this.#latest, call.order)
    this.#sentAt = Math.max(this.#sentAt, call.sentAt)
    this.#silent = this.#silent.filter((silentAt) => silentAt > this.#sentAt)
    const last = this.#last.findIndex(({ at }) => at > this.#sentAt)
    this.#last.splice(0, last === -1 ? this.#last.length : last)
    while ((this.#last.at(-1)?.remaining ?? -1) >= remaining) this.#last.pop()
    this.#last.push({ remaining, at })
  }

  /** An answer stated nothing, or there was none. */
  onSilent(at: number): void {
    this.#silent.push(at)
    if (this.#silent.length > 2 * MOST_SILENT) this.#silent = this.#silent.slice(-MOST_SILENT)
  }

  /** Nothing is left, by what is known now: a call was refused, or the limit was cut. */
  reset(now: number): void {
    this.#last = [{ remaining: 0, at: now }]
    this.#silent = []
    this.allowed = this.#ceiling = 0
  }
}
