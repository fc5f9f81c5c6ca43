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

/** How many entries of completed calls are remembered: for a larger limit an entry stands for several calls in a row. */
const CAPACITY = 16_384
/** More calls are remembered than the limit allows, so that a full memory shows a used limit and nothing else. */
const MEMORY_PER_LIMIT = 4 / 3

/** Longer than a client waits for a connection, in milliseconds. */
const GRANT_TTL_MS = 60_000

/** All calls of the key: granted, in flight and completed. The rate limit is estimated from these numbers alone. */
export class CallLedger {
  sent = 0
  /** Not sent yet. */
  granted = 0
  completed = 0
  /** Of these, answered with 4xx. */
  clientErrors = 0
  /** In the order of sending. */
  readonly inFlight = new Set<Call>()
  /** Granted and not yet sent, the latest last. */
  readonly #grants: { readonly at: number; count: number }[] = []
  /** Calls an entry stands for, a power of two. */
  #stride = 1
  /** Calls before this one are forgotten, whatever room there is. */
  #floor = 0
  #forgottenAt = Number.NEGATIVE_INFINITY
  #allCounted = 0
  /** Of each entry: the first sending, the last answer, and the calls certainly counted up to its end. */
  #sentAt = new Float64Array(CAPACITY)
  #receivedAt = new Float64Array(CAPACITY)
  #counted = new Float64Array(CAPACITY)

  get outstanding(): number {
    return this.inFlight.size
  }

  /** Calls that will still report something. */
  get hasPending(): boolean {
    return this.inFlight.size > 0 || this.granted > 0
  }

  grant(count: number, at: number): void {
    this.granted += count
    this.#grants.push({ at, count })
  }

  /** Takes back grants that were sent or are not needed: the latest first, so that forgotten ones expire. */
  release(count: number): void {
    let left = count
    for (let last = this.#grants.at(-1); last !== undefined && left > 0; last = this.#grants.at(-1)) {
      const taken = Math.min(last.count, left)
      last.count -= taken
      left -= taken
      this.granted -= taken
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
      this.granted -= first.count
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
    const at = this.#slot(this.completed)
    const isFirst = this.completed % this.#stride === 0 || this.completed === this.#floor
    if (isFirst && this.completed - this.#floor >= CAPACITY * this.#stride)
      this.#forgottenAt = this.#receivedAt[at] ?? this.#forgottenAt
    this.#sentAt[at] = isFirst ? call.sentAt : Math.min(call.sentAt, this.#sentAt[at] ?? call.sentAt)
    this.#receivedAt[at] = receivedAt
    if (isCounted) this.#allCounted++
    this.#counted[at] = this.#allCounted
    this.completed++
  }

  /**
   * Remembers at least as many calls as the limit allows, with an error of one in several thousand where that is more than
   * there are entries. A limit that falls far needs single calls again: what came before is then forgotten.
   */
  rememberFor(limit: number): void {
    const calls = limit * MEMORY_PER_LIMIT
    const stride = 2 ** Math.max(0, Math.ceil(Math.log2(calls / CAPACITY)))
    if (stride > this.#stride) this.#coarsen(stride)
    if (stride * 4 > this.#stride) return
    this.#forgottenAt = this.receivedAt(this.completed - 1) ?? this.#forgottenAt
    this.#floor = this.completed
    this.#stride = stride
  }

  #coarsen(stride: number): void {
    const [sentAt, receivedAt, counted] = [this.#sentAt, this.#receivedAt, this.#counted]
    const [from, step] = [this.#oldest, this.#stride]
    this.#sentAt = new Float64Array(CAPACITY).fill(Number.POSITIVE_INFINITY)
    this.#receivedAt = new Float64Array(CAPACITY)
    this.#counted = new Float64Array(CAPACITY)
    for (let index = from - (from % step); index < this.completed; index += step) {
      const before = (index / step) % CAPACITY
      const at = Math.floor(index / stride) % CAPACITY
      this.#sentAt[at] = Math.min(this.#sentAt[at] ?? 0, sentAt[before] ?? 0)
      this.#receivedAt[at] = receivedAt[before] ?? 0
      this.#counted[at] = counted[before] ?? 0
    }
    this.#floor = from
    this.#stride = stride
  }

  /** How many of the first `count` completed calls were certainly counted; of those inside an entry at least this many. */
  countedUpTo(count: number): number {
    if (count <= 0) return 0
    if (count >= this.completed) return this.#allCounted
    const end = Math.min(this.completed, (Math.floor((count - 1) / this.#stride) + 1) * this.#stride)
    return (this.#counted[this.#slot(count - 1)] ?? 0) - (end - count)
  }

  /** When the `index`-th call (from 0), and all of its entry, was answered; null if it is forgotten or not completed. */
  receivedAt(index: number): number | null {
    return this.#has(index) ? (this.#receivedAt[this.#slot(index)] ?? null) : null
  }

  /** How many calls were answered at or after a moment. */
  completedSince(at: number): number {
    return this.completed - this.#search(this.completed, (index) => (this.receivedAt(index) ?? 0) < at)
  }

  /** The earliest sending among the remembered calls of the entries from index `from` up to, and without, `to`. */
  earliestSent(from: number, to: number): number {
    let earliest = Number.POSITIVE_INFINITY
    for (let index = from - (from % this.#stride); index < to; index += this.#stride) {
      earliest = Math.min(earliest, this.#sentAt[this.#slot(index)] ?? Number.POSITIVE_INFINITY)
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
   * its answer. True for fixed and sliding windows and for buckets alike, if the length is not too
   * short; −∞ while it is infinite. Each window loses the time that a call is in flight.
   */
  remainingWithin(limit: number, length: number, now: number): number {
    if (!Number.isFinite(length)) return Number.NEGATIVE_INFINITY
    const first = this.#firstWithin(length, now)
    // Forgotten calls may be within it, too; the limit is used up all the same, except for a while after it has fallen far.
    if (first === this.#oldest && now < this.#forgottenAt + padded(length)) return Number.NEGATIVE_INFINITY
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
    const entries = Math.ceil(this.completed / this.#stride)
    return Math.max(this.#floor, (entries - CAPACITY) * this.#stride)
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

  #slot(index: number): number {
    return Math.floor(index / this.#stride) % CAPACITY
  }

  #has(index: number): boolean {
    return index >= this.#oldest && index < this.completed
  }
}
