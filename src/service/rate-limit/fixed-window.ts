import type { Call, CallLedger, CallResult } from './call-ledger.ts'
import { CLOCK_STEP, padded, snapToRound, stepFor, type Counter } from './counter.ts'
import type { Reset } from './headers.ts'

/** A window that was over: it started after, and its first call of ours was sent then. */
interface Start {
  readonly after: number
  readonly firstSentAt: number
}

const STARTS_KEPT = 16

/**
 * Windows of one length, each with its own count. Since an instant between `after` and `by` the open window counts;
 * it ends a length after `by` at the latest, and the next one opens. A count shows earlier which one is open: "n
 * are used" is the next window if as many calls had been counted before, and still this one if n exceeds what the
 * next can have.
 *
 * The length is bounded from below by how long after its start a window was still counted in, and from above by the
 * time between two starts: of the instants where the clock starts windows, of the first calls where calls do.
 */
export class FixedWindow implements Counter {
  min = 0
  /** Counted up with each window. */
  id = 0
  after = Number.NEGATIVE_INFINITY
  /** Calls answered up to then are in an earlier one. */
  #cleared = Number.NEGATIVE_INFINITY
  by = Number.POSITIVE_INFINITY
  /** The first call sent since the window opened. */
  firstSentAt = Number.POSITIVE_INFINITY
  /** Calls sent since then that are certainly counted, in this window or in a later one. */
  certain = 0
  #byRequest = Number.POSITIVE_INFINITY
  #byClock = Number.POSITIVE_INFINITY
  #byReset = Number.POSITIVE_INFINITY
  /** Calls answered up to then are in this window, or an earlier one; and so is one that was answered later. */
  #until = Number.NEGATIVE_INFINITY
  #confirmedAt = Number.NEGATIVE_INFINITY
  /** All calls answered up to then are in this window or an earlier one; and the most that it was seen to count. */
  #settled = Number.NEGATIVE_INFINITY
  #most = 0
  /** Remaining rose by a part of what was used: no fixed window does that. */
  #isPartial = false
  #countsOthers = false
  #idleUntil = Number.NEGATIVE_INFINITY
  #starts: Start[] = []
  #resets: { readonly at: number; readonly tolerance: number }[] = []
  readonly #ledger: CallLedger
  readonly #isOdd: boolean
  readonly isShared: boolean

  /** @param isOdd no round length is presumed @param isShared another client may have started a window, and count in it */
  constructor(ledger: CallLedger, isOdd = false, isShared = false, id = 0) {
    this.#ledger = ledger
    this.#isOdd = isOdd
    this.isShared = isShared
    this.id = id
  }

  get isPossible(): boolean {
    return !this.#isPartial && this.min <= this.max
  }

  get max(): number {
    const clock = this.#snap(this.#byClock, CLOCK_STEP)
    return Math.min(Math.max(this.maxByRequest, clock), this.#snap(this.#byReset, stepFor(this.#byReset)))
  }

  /** The longest if the first request starts a window. */
  get maxByRequest(): number {
    const max = Math.min(this.#byReset, this.#byRequest)
    return this.#snap(max, this.isShared ? CLOCK_STEP : stepFor(max))
  }

  /** As it was observed, before it is taken for a round one. */
  get observedMax(): number {
    return Math.min(this.#byReset, Math.max(this.#byRequest, this.#byClock))
  }

  #snap(max: number, step: number): number {
    return this.#isOdd || !Number.isFinite(max) ? max : snapToRound(this.min, max, step)
  }

  /** When the open window has certainly ended; null if none has begun, or if its length is not known. */
  get endsAt(): number | null {
    const end = this.by + padded(this.max)
    return Number.isFinite(end) ? end : null
  }

  cutoff(now: number): number {
    this.advance(now)
    return Math.max(this.#cleared, now - padded(this.max))
  }

  /** Opens the next window if this one is certainly over. */
  advance(now: number): boolean {
    const isOver = this.endsAt !== null && now >= this.endsAt
    if (isOver) this.#open()
    return isOver
  }

  #open(): void {
    const firstSentAt = this.#countsOthers
      ? Number.NEGATIVE_INFINITY
      : this.#ledger.earliestSentAfter(this.#cleared)
    this.#starts.push({ after: this.after, firstSentAt: this.isShared ? this.after : firstSentAt })
    if (this.#starts.length > STARTS_KEPT) this.#starts.shift()
    this.id++
    this.after = Math.max(this.after + this.min, this.#until)
    this.#until = this.after
    this.#cleared = Math.max(this.after, this.#settled)
    this.#most = 0
    this.by = Number.POSITIVE_INFINITY
    this.firstSentAt = Number.POSITIVE_INFINITY
    this.certain = 0
    this.#countsOthers = false
  }

  onSent({ sentAt }: Call): void {
    this.firstSentAt = Math.min(this.firstSentAt, sentAt)
  }

  onIdle(now: number): void {
    this.#idleUntil = now
    this.#starts = []
    this.#resets = []
  }

  onAnswer({ call, receivedAt, used, isCounted }: CallResult, _limit: number, others: number): void {
    const isNext = used !== null && used <= call.certainBefore
    if (call.window !== this.id) return
    const { outstanding } = this.#ledger
    /** Calls that the next window can have by now, this one included; not the one that is known to be in this one. */
    const from = Math.max(this.#until, this.#settled, this.after + this.min)
    const nextMayHave =
      others + outstanding + this.#ledger.completedAfter(from) - (this.#confirmedAt > from ? 1 : 0)
    const isSame = used !== null && (receivedAt <= from || used > nextMayHave)
    if (isNext) {
      // Some slack: another client's call may have been the first in the next window.
      if (used > nextMayHave + call.certainBefore / 4) {
        this.#isPartial ||= !this.isShared
        return
      }
      this.#open()
      this.firstSentAt = call.sentAt
    } else if (isSame) {
      this.#confirm(call.sentAt, receivedAt)
      if (this.by >= this.#idleUntil && this.by < call.sentAt)
        this.min = Math.max(this.min, call.sentAt - this.by)
    }
    if (isCounted) this.certain++
    const mayHave = outstanding + this.#ledger.completedAfter(this.#cleared)
    this.#countsOthers ||= used !== null && used > mayHave
    this.#most = Math.max(this.#most, used ?? 0)
    // It counts all calls that it may have, and none but ours.
    if (this.#most === mayHave && !this.#countsOthers && !this.isShared) this.#settled = receivedAt
    // A call that may be in the next window says nothing about when this one started.
    if (used !== null && (isNext || isSame)) this.#narrow(call, used)
    if (isCounted || (used !== null && used <= mayHave)) this.#begin(call, receivedAt)
  }

  /** The open window has started by the answer of a call that is in it. */
  #begin({ sentAt }: Call, receivedAt: number): void {
    if (this.by < receivedAt) return
    this.by = receivedAt
    this.#confirm(sentAt, receivedAt)
    this.#measure()
  }

  #confirm(sentAt: number, receivedAt: number): void {
    if (sentAt <= this.#until) return
    this.#until = sentAt
    this.#confirmedAt = receivedAt
  }

  /** Of the calls completed before this one at most `used` − 1 are in its window: it started after an earlier one was sent. */
  #narrow({ completedBefore }: Call, used: number): void {
    const last = this.#ledger.lastCounted(used, completedBefore)
    if (last === null || last.receivedAt <= this.#cleared) return
    if (last.sentAt > this.after)
      this.after = Math.max(this.after, this.#ledger.earliestSent(last.index, completedBefore))
    this.#cleared = Math.max(this.#cleared, used === 1 ? last.receivedAt : this.after)
  }

  /** The open window has started by now: what lies between it and the ones before is as many lengths, or more. */
  #measure(): void {
    for (const [index, { after, firstSentAt }] of this.#starts.entries()) {
      const windows = this.#starts.length - index
      this.#byClock = Math.min(this.#byClock, (this.by - after) / windows)
      this.#byRequest = Math.min(this.#byRequest, (this.by - firstSentAt) / windows)
    }
  }

  /** The ends of windows, on no clock but the service's: they are at least a length apart. */
  onReset(reset: Reset, sentAt: number, receivedAt: number): void {
    const at = reset.kind === 'instant' ? reset.at : receivedAt + reset.ms
    const tolerance = reset.precision + (reset.kind === 'instant' ? 5 : receivedAt - sentAt)
    const last = this.#resets.at(-1)
    // Some services compute the end anew for each answer: it is another one only if it differs by more than that.
    if (last !== undefined && at < last.at + Math.max(400, 1.5 * tolerance)) return
    for (const [index, earlier] of this.#resets.entries())
      this.#byReset = Math.min(this.#byReset, (at - earlier.at + tolerance) / (this.#resets.length - index))
    this.#resets = [...this.#resets, { at, tolerance }].slice(-STARTS_KEPT)
  }
}
