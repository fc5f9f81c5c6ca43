/** One call on the wire, with what was known when it was sent. */
export interface Call {
  /** 1 for the first call, counted up. */
  readonly order: number
  readonly sentAt: number
  /** Calls that had ended by then: they reached the service before this one. */
  readonly endedBefore: number
  /** Of these, answered with 4xx. */
  readonly missesBefore: number
  /** The window that was open by our reckoning, and the calls known to be counted in it. */
  readonly window: number
  readonly countedBefore: number
  /** Calls that had ended by then, are known to be counted, and were sent while that window was open. */
  readonly sureBefore: number
  /** Headers had told that so many calls were allowed in all, this one among them. */
  readonly isCovered: boolean
}

/** The calls that were made: the few numbers that all of the reckoning is made of. */
export class Calls {
  /** Promised to somebody, and not yet on the wire; the latest last. */
  readonly #grants: { readonly at: number; count: number }[] = []
  #granted = 0
  sent = 0
  /** Answered or lost. */
  ended = 0
  /** Of these, answered with 4xx. */
  misses = 0
  /** On the wire, the first sent first. */
  readonly onTheWire = new Set<Call>()

  get granted(): number {
    return this.#granted
  }

  get outstanding(): number {
    return this.onTheWire.size
  }

  /** Whether something is on its way that will tell more. */
  get isMoving(): boolean {
    return this.onTheWire.size > 0 || this.#granted > 0
  }

  grant(count: number, at: number): void {
    this.#granted += count
    const last = this.#grants.at(-1)
    if (last !== undefined && at - last.at < 1) last.count += count
    else this.#grants.push({ at, count })
  }

  /** Sent, or not needed. The latest grants first, so that one that was forgotten grows old. */
  giveBack(count: number): void {
    let left = count
    for (let last = this.#grants.at(-1); last !== undefined && left > 0; last = this.#grants.at(-1)) {
      const taken = Math.min(last.count, left)
      last.count -= taken
      left -= taken
      this.#granted -= taken
      if (last.count === 0) this.#grants.pop()
    }
  }

  /** When the oldest grant lapses: its call ended without being sent, and nobody said so. */
  get lapsesAt(): number | null {
    const first = this.#grants[0]
    return first === undefined ? null : first.at + keptFor
  }

  lapse(now: number): void {
    for (
      let first = this.#grants[0];
      first !== undefined && now >= first.at + keptFor;
      first = this.#grants[0]
    ) {
      this.#granted -= first.count
      this.#grants.shift()
    }
  }

  send(
    sentAt: number,
    window: { readonly id: number; readonly counted: number; readonly sure: number },
    allowed: number,
  ): Call {
    this.giveBack(1)
    this.sent++
    const call = {
      order: this.sent,
      sentAt,
      endedBefore: this.ended,
      missesBefore: this.misses,
      window: window.id,
      countedBefore: window.counted,
      sureBefore: window.sure,
      isCovered: this.sent <= allowed,
    }
    this.onTheWire.add(call)
    return call
  }

  end(call: Call): void {
    if (this.onTheWire.delete(call)) this.ended++
  }
}

/** Longer than a client waits for a connection, in milliseconds. */
const keptFor = 60_000

/** An answer that tells of the limit, or was at least counted by the service. */
export interface Heard {
  readonly call: Call
  readonly receivedAt: number
  /** Calls that the service has counted, this one included: the limit less Remaining. Null: not told. */
  readonly used: number | null
  /** Whether the service has certainly counted the call: some count neither faults nor refused inputs. */
  readonly isCounted: boolean
  /** The instant that Reset told, on the service's clock; null where it told none. */
  readonly end: number | null
}
