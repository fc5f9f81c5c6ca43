import type { Call, CallLedger, CallResult } from './call-ledger.ts'
import type { RateHeaders, Reset } from './headers.ts'

/** A static Remaining is ignored after this many answers. */
const STATIC_AFTER = 4

/** A delay in milliseconds is recognized after it fell by this much, this often, between two calls this close. */
const UNIT_DECREASES = 3
const MIN_DECREASE_MS = 10
const COMPARED_FOR_MS = 1000

/** Of so few answers all may have had headers by chance. */
const FEW_ANSWERS = 8

/** 4xx: a rejected input or no match, which some services do not count. */
export const isClientError = (status: number): boolean => status >= 400 && status < 500 && status !== 429

/** Calls counted by the service, this one included; null if the headers do not say, or say nothing credible. */
export function usedFromHeaders({ limit, remaining }: RateHeaders, known: number | null): number | null {
  const total = limit ?? known
  return total === null || remaining === null || remaining >= total ? null : total - remaining
}

/**
 * Ignores headers that are constants: to believe a Remaining of 0 that never changes would be to stand still. A Remaining
 * of which only one value was ever seen is ignored until it changes, unless it is that of a fresh window.
 */
export class StaticHeaderFilter {
  #only: number | null = null
  #hasVaried = false
  #answers = 0

  filter(rate: RateHeaders): RateHeaders {
    const { limit, remaining } = rate
    if (remaining === null || this.#hasVaried) return rate
    if (this.#only !== null && remaining !== this.#only) {
      this.#hasVaried = true
      return rate
    }
    this.#only = remaining
    this.#answers++
    const isFresh = limit === null || limit === 1 || remaining >= limit - 1
    if (isFresh || this.#answers < STATIC_AFTER) return rate
    return { ...rate, limit: null, remaining: null, reset: null }
  }
}

/**
 * The unit of a Reset that is a delay: taken for seconds, milliseconds are a thousand times too long. The delay falls as
 * time passes, and so shows its own unit.
 */
export class DelayUnit {
  #last: { readonly ms: number; readonly sentAt: number; readonly receivedAt: number } | null = null
  #decreases = 0

  get isMs(): boolean {
    return this.#decreases >= UNIT_DECREASES
  }

  convert(reset: Reset | null, { sentAt }: Call, receivedAt: number): Reset | null {
    if (reset === null || reset.kind !== 'delay') return reset
    this.#compare(reset.ms, sentAt, receivedAt)
    return this.isMs ? { kind: 'delay', ms: reset.ms / 1000, precision: 1 } : reset
  }

  /** Between two calls, one after the other, the delay fell by the milliseconds between them, not by the seconds. */
  #compare(ms: number, sentAt: number, receivedAt: number): void {
    const last = this.#last
    if (last !== null && sentAt < last.receivedAt) return
    const isRenewed = last === null || ms >= last.ms
    if (isRenewed || receivedAt - last.receivedAt > COMPARED_FOR_MS) this.#last = { ms, sentAt, receivedAt }
    if (isRenewed) return
    const fell = (last.ms - ms) / 1000
    const isMs = fell >= sentAt - last.receivedAt - 1 && fell <= receivedAt - last.sentAt + 1
    if (!isMs) this.#decreases = 0
    else if (fell >= MIN_DECREASE_MS) this.#decreases++
  }
}

/**
 * A limit that was cut. What was in flight by then may exceed it, which proves nothing; and answers from before the cut
 * that arrive after it must not bring the former limit back.
 */
export class LimitDecrease {
  #at = Number.NEGATIVE_INFINITY

  get hasHappened(): boolean {
    return Number.isFinite(this.#at)
  }

  record(now: number): void {
    this.#at = now
  }

  /** Whether a call was sent after it was known. */
  isVisibleTo(call: Call): boolean {
    return call.sentAt > this.#at
  }

  /** An answer from before the cut, by the limit of today: as many calls are used, so fewer are left. */
  apply(rate: RateHeaders, call: Call, known: number | null): RateHeaders {
    const { limit, remaining } = rate
    if (limit === null || remaining === null || known === null) return rate
    if (limit <= known || this.isVisibleTo(call)) return rate
    return { ...rate, limit: known, remaining: Math.max(0, known - (limit - remaining)) }
  }
}

/**
 * Which statuses the service counts against the limit. Server errors (5xx) are counted by some services only, so they
 * prove nothing. 4xx are counted by most: that is believed once more calls are counted than all others together, or once
 * a call that is alone in flight counts one more than the 4xx before it; and never again once it counts the same.
 */
export class CountedStatuses {
  #isProven = false
  #isContradicted = false
  /** Calls that were counted before the first of ours: a predecessor's. */
  #before: number | null = null
  /** The latest call, if it was a 4xx and alone in flight. */
  #clientError: { readonly order: number; readonly used: number } | null = null

  /** @param status not 429 */
  isCounted(status: number): boolean {
    return status < 400 || (status < 500 && this.#isProven && !this.#isContradicted)
  }

  /** @param sent calls sent in total by the time of the answer */
  record({ call, used }: CallResult, status: number, sent: number): void {
    if (used === null) {
      this.#clientError = null
      return
    }
    this.#before ??= Math.max(0, used - sent)
    if (used - this.#before > sent - call.clientErrorsBefore) this.#isProven = true
    const isAlone = call.completedBefore === call.order - 1 && sent === call.order
    const last = this.#clientError
    this.#clientError = isAlone && isClientError(status) ? { order: call.order, used } : null
    if (!isAlone || last === null || call.order !== last.order + 1) return
    if (used === last.used + 1) this.#isProven = true
    if (used === last.used) this.#isContradicted = true
  }
}

/** How many answers carry headers: some services send them with some answers only. */
export class HeaderCoverage {
  /** Highest usage seen on an answer with Reset: an upper bound on what a bucket has refilled by that Reset. */
  maxUsedAtReset = 0
  #answers = 0
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get share(): number {
    return Math.max(0.05, this.#answers / Math.max(1, this.#ledger.completed))
  }

  get hasFewSamples(): boolean {
    return this.#ledger.completed < FEW_ANSWERS
  }

  recordRemaining(): void {
    this.#answers++
  }

  recordReset(used: number | null): void {
    this.maxUsedAtReset = Math.max(this.maxUsedAtReset, used ?? 0)
  }
}

/** What is known about the headers of the service's answers. */
export class HeaderEvidence {
  readonly statics = new StaticHeaderFilter()
  readonly delayUnit = new DelayUnit()
  readonly statuses = new CountedStatuses()
  readonly decrease = new LimitDecrease()
  readonly coverage: HeaderCoverage

  constructor(ledger: CallLedger) {
    this.coverage = new HeaderCoverage(ledger)
  }
}
