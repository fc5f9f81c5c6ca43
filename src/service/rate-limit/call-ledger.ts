/** A call in flight, with what was known when it was sent. */
export interface Call {
  /** 1 for the first call, and more for each later one. */
  readonly order: number
  readonly sentAt: number
  /** Calls completed by then: they reached the service before this one. */
  readonly completedBefore: number
  /** Of these, answered with 4xx. */
  readonly clientErrorsBefore: number
  /** The fixed window that was open by our count, and the calls completed by then that were sent in it and certainly counted. */
  readonly window: number
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
  /** It certainly did not: it was refused. */
  readonly isRefused: boolean
}

/** Calls in a row; the latest was answered then. */
export interface EarlierCalls {
  readonly at: number
  readonly calls: number
}

/** Calls completed in a row: the index of the first, the first sending, the last answer, and all calls certainly counted by then. */
interface Entry {
  readonly from: number
  sentAt: number
  receivedAt: number
  counted: number
}

const MOST_ENTRIES = 16_384
/** More calls are remembered than the limit allows, so that a full memory shows a used limit and nothing else. */
const MEMORY_PER_LIMIT = 4 / 3
/** Longer than a client waits for a connection, in milliseconds. */
const GRANT_TTL_MS = 60_000

/**
 * All calls of the key: granted, in flight and completed, these in the order of their answers. Everything else is computed
 * from these numbers. When there are too many entries, neighbours are merged evenly: an error of one in some thousand.
 */
export class CallLedger {
  /** Without refused calls: they hold no place. */
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
  #entries: Entry[] = []
  #order = 0
  #wanted = 0
  #counted = 0
  #forgottenAt = Number.NEGATIVE_INFINITY

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
    for (
      let left = count, last = this.#grants.at(-1);
      last !== undefined && left > 0;
      last = this.#grants.at(-1)
    ) {
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
    while (this.grantsExpireAt !== null && this.grantsExpireAt <= now)
      this.granted -= this.#grants.shift()?.count ?? 0
  }

  send(known: Pick<Call, 'sentAt' | 'window' | 'certainBefore'>, allowed: number): Call {
    this.release(1)
    this.sent++
    const call: Call = {
      ...known,
      order: ++this.#order,
      completedBefore: this.completed,
      clientErrorsBefore: this.clientErrors,
      isCovered: this.sent <= allowed,
    }
    this.inFlight.add(call)
    return call
  }

  complete({ call, receivedAt, isCounted, isRefused }: CallResult): void {
    if (!this.inFlight.delete(call)) return
    if (isRefused) this.sent--
    else this.#add(1, call.sentAt, receivedAt, isCounted ? 1 : 0)
  }

  /** Calls of an earlier leader, the oldest first; when each window began that they are in is not known. */
  remember(calls: readonly EarlierCalls[]): void {
    for (const entry of calls) {
      this.sent += entry.calls
      this.#add(entry.calls, Number.NEGATIVE_INFINITY, entry.at, 0)
    }
  }

  #add(calls: number, sentAt: number, receivedAt: number, counted: number): void {
    this.#counted += counted
    this.#entries.push({ from: this.completed, sentAt, receivedAt, counted: this.#counted })
    this.completed += calls
    if (this.#entries.length > MOST_ENTRIES) this.#compress()
  }

  /** Remembers at least as many calls as this limit allows. */
  rememberFor(limit: number): void {
    this.#wanted = limit * MEMORY_PER_LIMIT
  }

  #compress(): void {
    const kept = Math.max(MOST_ENTRIES / 2, Math.min(this.completed, this.#wanted))
    const most = kept > MOST_ENTRIES / 2 ? Math.ceil((4 * kept) / MOST_ENTRIES) : 1
    const merged: Entry[] = []
    for (const [index, entry] of this.#entries.entries()) {
      const end = this.#entries[index + 1]?.from ?? this.completed
      const last = merged.at(-1)
      if (end <= this.completed - kept) this.#forgottenAt = entry.receivedAt
      else if (last !== undefined && end - last.from <= most) {
        last.sentAt = Math.min(last.sentAt, entry.sentAt)
        last.receivedAt = entry.receivedAt
        last.counted = entry.counted
      } else merged.push({ ...entry })
    }
    this.#entries = merged
  }

  /** How many of the first `count` completed calls were certainly counted; of those inside an entry at least this many. */
  countedUpTo(count: number): number {
    if (count >= this.completed) return this.#counted
    const at = this.#search(({ from }) => from < count) - 1
    const end = this.#entries[at + 1]?.from ?? this.completed
    return Math.max(0, (this.#entries[at]?.counted ?? 0) - (end - count))
  }

  /** When the `index`-th call (from 0), and all of its entry, was answered; null if it is forgotten or not completed. */
  receivedAt(index: number): number | null {
    if (index < (this.#entries[0]?.from ?? 0) || index >= this.completed) return null
    return this.#entries[this.#search(({ from }) => from <= index) - 1]?.receivedAt ?? null
  }

  /** How many calls were answered after a moment. */
  completedAfter(at: number): number {
    return this.completed - (this.#entries[this.#firstAfter(at)]?.from ?? this.completed)
  }

  /** The calls that were answered after a moment, the oldest first, in no more parts than these. */
  listAfter(at: number, most: number): EarlierCalls[] {
    const entries = this.#entries.slice(this.#firstAfter(at))
    const each = Math.max(1, Math.ceil(entries.length / most))
    return Array.from({ length: Math.ceil(entries.length / each) }, (_, part) => {
      const [from, to] = [entries[part * each], entries[(part + 1) * each]]
      const last = entries[Math.min((part + 1) * each, entries.length) - 1]
      return { at: last?.receivedAt ?? at, calls: (to?.from ?? this.completed) - (from?.from ?? 0) }
    })
  }

  /** When the first call was sent that was answered after a moment, or is in flight. */
  earliestSentAfter(at: number): number {
    let earliest = Number.POSITIVE_INFINITY
    for (let index = this.#firstAfter(at); index < this.#entries.length; index++)
      earliest = Math.min(earliest, this.#entries[index]?.sentAt ?? earliest)
    for (const { sentAt } of this.inFlight) earliest = Math.min(earliest, sentAt)
    return earliest
  }

  /** Of the first `to` completed calls the last `count` that were counted: the first entry of these; null if it is forgotten. */
  lastCounted(
    count: number,
    to: number,
  ): { readonly index: number; readonly sentAt: number; readonly receivedAt: number } | null {
    const wanted = this.countedUpTo(to) - count
    const index = this.#search(({ counted }) => counted <= wanted)
    const entry = this.#entries[index]
    if (wanted < 0 || entry === undefined || entry.from >= to) return null
    if (index === 0 && entry.from > 0) return null
    return { index: entry.from, sentAt: entry.sentAt, receivedAt: entry.receivedAt }
  }

  /** The earliest sending among the calls from index `from` up to, and without, `to`. */
  earliestSent(from: number, to: number): number {
    let earliest = Number.POSITIVE_INFINITY
    for (let at = this.#search((entry) => entry.from <= from) - 1; at < this.#entries.length; at++) {
      const entry = this.#entries[at]
      if (entry === undefined || entry.from >= to) break
      earliest = Math.min(earliest, entry.sentAt)
    }
    return earliest
  }

  /** Calls left if each holds a place from its grant on, and those answered up to `cutoff` do not any more. */
  room(limit: number, cutoff: number): number {
    if (cutoff === Number.NEGATIVE_INFINITY || cutoff < this.#forgottenAt) return Number.NEGATIVE_INFINITY
    return limit - this.completedAfter(cutoff) - this.outstanding - this.granted
  }

  /** When the next call to leave was answered: that of the first place that is held after `cutoff`; null if none is. */
  nextToLeave(limit: number, cutoff: number): number | null {
    return this.receivedAt(Math.max(this.completed - this.completedAfter(cutoff), this.completed - limit))
  }

  #firstAfter(at: number): number {
    return this.#search(({ receivedAt }) => receivedAt <= at)
  }

  /** The first entry that is not `isBefore`. */
  #search(isBefore: (entry: Entry) => boolean): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      const entry = this.#entries[middle]
      if (entry !== undefined && isBefore(entry)) low = middle + 1
      else high = middle
    }
    return low
  }
}
