import { padded } from './length-bounds.ts'

/** A call in flight, with what was known when it was sent. */
export interface Call {
  /** 1 for the first call. */
  readonly order: number
  readonly sentAt: number
  /** Calls completed by then: they reached the service before this one. */
  readonly completedBefore: number
  /** Of these, answered with 4xx. */
  readonly clientErrorsBefore: number
  /** The fixed window that was open by our count, and the calls confirmed to be counted in it. */
  readonly window: number
  readonly confirmedBefore: number
  /** Calls completed by then that are certainly counted and were sent while that window was open. */
  readonly certainBefore: number
  /** Headers had allowed this many calls in total, this one included. */
  readonly isCovered: boolean
}

/** What became of one call. */
export interface CallResult {
  readonly call: Call
  readonly receivedAt: number
  /** Calls counted by the service, this one included: Limit − Remaining. Null: not stated. */
  readonly used: number | null
  /** Whether the service certainly counted the call; some count neither server errors nor rejected inputs. */
  readonly isCounted: boolean
  /** The instant in Reset, on the service's clock; null if it stated none. */
  readonly resetAt: number | null
}

/** How many completed calls are remembered. A larger limit is never estimated from its own rate. */
const CAPACITY = 16_384

/** Longer than a client waits for a connection, in milliseconds. */
const GRANT_TTL_MS = 60_000

/** All calls of the key: granted, in flight and completed. The rate limit is estimated from these numbers alone. */
export class CallLedger {
  sent = 0
  completed = 0
  /** Of these, answered with 4xx. */
  clientErrors = 0
  /** In the order of sending. */
  readonly inFlight = new Set<Call>()
  /** Granted and not yet sent, the latest last. */
  readonly #grants: { readonly at: number; count: number }[] = []
  #granted = 0
  readonly #sentAt = new Float64Array(CAPACITY)
  readonly #receivedAt = new Float64Array(CAPACITY)
  /** Calls certainly counted, up to and including this one. */
  readonly #counted = new Float64Array(CAPACITY)

  get granted(): number {
    return this.#granted
  }

  get outstanding(): number {
    return this.inFlight.size
  }

  /** Calls that will still report something. */
  get hasPending(): boolean {
    return this.inFlight.size > 0 || this.#granted > 0
  }

  grant(count: number, at: number): void {
    this.#granted += count
    this.#grants.push({ at, count })
  }

  /** Takes back grants that were sent or are not needed: the latest first, so that forgotten ones expire. */
  release(count: number): void {
    let left = count
    for (let last = this.#grants.at(-1); last !== undefined && left > 0; last = this.#grants.at(-1)) {
      const taken = Math.min(last.count, left)
      last.count -= taken
      left -= taken
      this.#granted -= taken
      if (last.count === 0) this.#grants.pop()
    }
  }

  /** When the oldest grant expires: its call ended without being sent or released. */
  get grantsExpireAt(): number | null {
    const first = this.#grants[0]
    return first === undefined ? null : first.at + GRANT_TTL_MS
  }

  expireGrants(now: number): void {
    const isExpired = ({ at }: { at: number }): boolean => now >= at + GRANT_TTL_MS
    for (let first = this.#grants[0]; first !== undefined && isExpired(first); first = this.#grants[0]) {
      this.#granted -= first.count
      this.#grants.shift()
    }
  }

  send(
    sentAt: number,
    window: { readonly id: number; readonly confirmed: number; readonly certain: number },
    allowed: number,
  ): Call {
    this.release(1)
    this.sent++
    const call: Call = {
      order: this.sent,
      sentAt,
      completedBefore: this.completed,
      clientErrorsBefore: this.clientErrors,
      window: window.id,
      confirmedBefore: window.confirmed,
      certainBefore: window.certain,
      isCovered: this.sent <= allowed,
    }
    this.inFlight.add(call)
    return call
  }

  complete({ call, receivedAt, isCounted }: CallResult): void {
    if (!this.inFlight.delete(call)) return
    const at = this.completed % CAPACITY
    this.#sentAt[at] = call.sentAt
    this.#receivedAt[at] = receivedAt
    this.#counted[at] = this.countedUpTo(this.completed) + (isCounted ? 1 : 0)
    this.completed++
  }

  /** How many of the first `count` completed calls were certainly counted. */
  countedUpTo(count: number): number {
    return count <= 0 ? 0 : (this.#counted[(count - 1) % CAPACITY] ?? 0)
  }

  /** When the `index`-th call (from 0) was answered; null if it is forgotten or not completed. */
  receivedAt(index: number): number | null {
    return this.#has(index) ? (this.#receivedAt[index % CAPACITY] ?? null) : null
  }

  /** How many calls were answered at or after a moment. */
  completedSince(at: number): number {
    return this.completed - this.#search(this.completed, (index) => (this.receivedAt(index) ?? 0) < at)
  }

  /** The earliest sending among the remembered calls from index `from` up to, and without, `to`. */
  earliestSent(from: number, to: number): number {
    let earliest = Number.POSITIVE_INFINITY
    for (let index = from; index < to; index++) {
      earliest = Math.min(earliest, this.#sentAt[index % CAPACITY] ?? Number.POSITIVE_INFINITY)
    }
    return earliest
  }

  /** The latest index from which up to `to` at least `count` calls were certainly counted. */
  sinceCounted(count: number, to: number): number | null {
    const wanted = this.countedUpTo(to) - count
    if (wanted < this.countedUpTo(this.#oldest)) return null
    return this.#search(to, (index) => this.countedUpTo(index + 1) <= wanted)
  }

  /**
   * Calls left if each holds a place from its sending until it is certainly older than the window, `length` after
   * its answer. True for fixed and sliding windows and for buckets alike, so it needs only a length that is not too
   * short; −∞ while that is infinite. It wastes the time that a call is in flight.
   */
  remainingWithin(limit: number, length: number, now: number): number {
    if (!Number.isFinite(length)) return Number.NEGATIVE_INFINITY
    const first = this.#firstWithin(length, now)
    if (first > 0 && first === this.#oldest) return Number.NEGATIVE_INFINITY
    return limit - (this.completed - first) - this.outstanding - this.granted
  }

  /** When the oldest call that holds a place has left the window; null if none holds one. */
  nextLeavesAt(limit: number, length: number, now: number): number | null {
    if (!Number.isFinite(length)) return null
    // A call makes no difference while as many later ones as the limit hold places.
    const first = Math.max(this.#firstWithin(length, now), this.completed - limit)
    const at = this.receivedAt(first)
    return at === null ? null : at + padded(length)
  }

  #firstWithin(length: number, now: number): number {
    return this.#search(this.completed, (index) => (this.receivedAt(index) ?? 0) + padded(length) <= now)
  }

  get #oldest(): number {
    return Math.max(0, this.completed - CAPACITY)
  }

  /** The first remembered index before `to` that is not `isBefore`; `to` if there is none. */
  #search(to: number, isBefore: (index: number) => boolean): number {
    let low = this.#oldest
    let high = to
    while (low < high) {
      const middle = (low + high) >> 1
      if (isBefore(middle)) low = middle + 1
      else high = middle
    }
    return low
  }

  #has(index: number): boolean {
    return index >= this.#oldest && index < this.completed
  }
}
