import { padded, roundestBelow, roundestBetween } from './length-bounds.ts'

/** What a plan of probes is made from. Times on our clock, lengths in milliseconds. */
export interface ProbeContext {
  readonly limit: number
  readonly window: number
  /** The latest start of the window; and when the first call was sent that may be in it. */
  readonly windowStart: number | null
  readonly firstSentAt: number
  /** Bounds of the window's length. */
  readonly min: number
  readonly max: number
  /** The longest as it was observed, before it is taken for a round one. */
  readonly observedMax: number
  /** The longest if the first request starts a window. */
  readonly maxIfRequestStarts: number
  /** The window ends between these, by Reset. */
  readonly earliestReset: number
  readonly latestReset: number
  /** The share of answers that carry headers, whether it is one of few answers, and when the latest was sent for. */
  readonly headerShare: number
  readonly hasFewSamples: boolean
  readonly lastHeaderAt: number
  /** The length by a policy's `w=` or an earlier run; null if there is none. */
  readonly warmGuess: number | null
}

/** One call of a probe: when to send it, and the index of its probe. */
interface ProbeCall {
  readonly at: number
  readonly probe: number
}

/** Up to here a length is tried in tenths of a second, and a whole probe at once. In milliseconds. */
const SHORT_WINDOW_MS = 5000

/** In a window this long, a length that is known to a second is known well. */
const LONG_WINDOW_MS = 20_000

/** Most answers have arrived after this; and after the end of a window, which is lost time, the next call waits less. */
const ANSWER_MS = 120
const AFTER_END_MS = 40

/** Lengths so close that only several calls at once can tell them apart. */
const CLOSE_MS = 250

/** A length that is known this well is known well enough. */
const PRECISION = 0.994

/** After this many windows in which nothing was learnt, probes become rarer. */
const MAX_IDLE_WINDOWS = 6

/** The most that is reserved if headers are missing. */
const MAX_RESERVED = 24

/** What is tried if nothing bounds the length from above. */
const CANDIDATE_LENGTHS = [
  500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
]

/**
 * Calls that are reserved to find out how long a window is. Sent when the window may just have ended, such a call cannot
 * be refused, because the old window still has room for it; and its answer shows which window it was counted in. One
 * probe goes out just before the candidate end, to see the old window still open, and others around it. The longest
 * possible length is tried first, then the roundest that is shorter.
 */
export class Probes {
  #window = -1
  #plan: readonly ProbeCall[] = []
  /** What the plan was made from, until its first call: if that is known better, a new one is made. */
  #basis: {
    readonly context: ProbeContext
    readonly tried: number
    readonly lastTried: number | null
  } | null = null
  /** The probe that was begun last, and when. */
  #current: { readonly probe: number; readonly since: number } | null = null
  /** The length that was tried last in this window, and the calls spent in it. */
  #tried = 0
  #spent = 0
  #isOver = false
  /** The plan is all that will be tried in this window: the rest of what was reserved is free. */
  #isFinal = false
  /** The bounds when something was learnt last, and the windows since. */
  #min = 0
  #max = Number.POSITIVE_INFINITY
  #idleWindows = 0
  #lastTried: number | null = null

  /** How many calls to reserve now. */
  reserved(context: ProbeContext, now: number): number {
    this.#update(context, now)
    if (this.#isOver) return 0
    return this.#isFinal ? this.#plan.length : Math.max(this.#plan.length, wanted(context) - this.#spent)
  }

  /** When to send the next; null if there is nothing to find out. */
  nextAt(context: ProbeContext, now: number): number | null {
    this.#update(context, now)
    return this.#plan[0]?.at ?? null
  }

  /** A window in which few calls were wanted was no attempt in vain. */
  onIdle(): void {
    this.#idleWindows = 0
    this.#lastTried = null
  }

  /** A probe's call is granted. */
  consume(now: number): void {
    this.#spent++
    this.#basis = null
    const [first, ...others] = this.#plan
    if (first !== undefined && first.probe !== this.#current?.probe)
      this.#current = { probe: first.probe, since: now }
    this.#plan = others
  }

  #update(context: ProbeContext, now: number): void {
    if (context.window !== this.#window) this.#startWindow(context)
    if (this.#isOver || context.windowStart === null) return
    // A response has answered the probe: its other calls are free.
    const current = this.#current
    if (current !== null && context.lastHeaderAt >= current.since)
      this.#plan = this.#plan.filter(({ probe }) => probe !== current.probe)
    const basis = this.#basis
    if (basis !== null && !isSameStart(basis.context, context)) {
      this.#tried = basis.tried
      this.#lastTried = basis.lastTried
      this.#plan = []
    }
    if (this.#plan.length > 0) return
    this.#basis = { context, tried: this.#tried, lastTried: this.#lastTried }
    const moments = this.#chooseMoments(context, context.windowStart, now)
    this.#current = null
    this.#plan = expandProbes(moments, callsPerProbe(context), this.#tried)
    this.#isOver = this.#plan.length === 0
    this.#isFinal = isBoundedByRequest(context) || isBoundedByClock(context)
  }

  #startWindow(context: ProbeContext): void {
    const { min, observedMax } = context
    const isNews = observedMax < this.#max * 0.99 || min > Math.max(1, this.#min) * 1.02
    this.#idleWindows = isNews ? 0 : this.#idleWindows + 1
    const isRare = this.#idleWindows > MAX_IDLE_WINDOWS * callsPerProbe(context)
    const isPowerOfTwo = (this.#idleWindows & (this.#idleWindows - 1)) === 0
    this.#window = context.window
    this.#plan = []
    this.#current = null
    this.#basis = null
    this.#tried = 0
    this.#spent = 0
    this.#isFinal = false
    this.#min = min
    this.#max = observedMax
    this.#isOver = wanted(context) === 0 || (isRare && !isPowerOfTwo)
  }

  /** The moments of the probes of the next length to try. */
  #chooseMoments(context: ProbeContext, windowStart: number, now: number): number[] {
    const left = Math.floor((wanted(context) - this.#spent) / callsPerProbe(context))
    if (left <= 0) return []
    const start = Math.min(windowStart, context.firstSentAt)
    const min = Math.max(context.min, this.#tried, now - windowStart)
    const around = (length: number): [number, number] => [
      start + length - leadTime(length),
      windowStart + padded(length),
    ]
    if (isBoundedByRequest(context)) return this.#momentsWithin(context, min, left, start, around)
    if (isBoundedByClock(context)) {
      // The first request starts no window. The longest length is known, so all that is left is to see the window still
      // open when no shorter length is possible any more.
      const shorter = roundestBelow(context.min, context.max * PRECISION)
      return shorter === null ? [] : [start + (context.max + shorter) / 2].filter((at) => at > now)
    }
    const length = nextLength(context, windowStart, min, left === 1)
    if (length === null) return []
    const isFirst = this.#tried === 0
    this.#tried = length
    const [before, after] = around(length)
    if (left < 4 || !isFirst) return [before, after].slice(-left)
    return [start + (before - start) / 2, before, after].filter((at) => at > now)
  }

  /**
   * The length is bounded from above if the first request starts a window.
   * @param around the moments just before and just after the end of a window of a length
   */
  #momentsWithin(
    context: ProbeContext,
    min: number,
    left: number,
    start: number,
    around: (length: number) => [number, number],
  ): number[] {
    const longest = context.maxIfRequestStarts
    if (this.#tried >= longest) return []
    this.#tried = longest
    const isClockSlower = context.max > longest + CLOSE_MS
    const length = this.#pickLength(min, longest)
    if (length === null) return isClockSlower ? around(longest).slice(-left) : []
    const [before, after] = around(length)
    const isLongest = length > longest * PRECISION
    if (isLongest && !isClockSlower) {
      // To see the window still open when no shorter length is possible any more, and just before its end. A window that
      // the clock starts is some way on when its first call comes.
      const shorter = roundestBelow(context.min, length * PRECISION)
      const between = shorter === null ? before : start + (length + shorter) / 2
      return (before - between > CLOSE_MS ? [between, before] : [before]).slice(0, left)
    }
    if (isLongest || longest - length > CLOSE_MS) return [before, after].slice(-left)
    const volley = [before, ...[4, 12, 20, 28, 36].map((late) => start + length + late)]
    return isClockSlower ? [...volley.slice(0, left - 1), after] : volley.slice(0, left)
  }

  /** The roundest length; if that was tried in vain, a shorter one every other time. */
  #pickLength(min: number, longest: number): number | null {
    if (isKnown(min, longest)) return null
    const roundest = roundestBelow(min, longest)
    const isRetry = roundest !== null && roundest === this.#lastTried && !isKnown(min, roundest)
    const shorter = isRetry ? roundestBelow(min, roundest * PRECISION) : null
    this.#lastTried = shorter ?? roundest
    return this.#lastTried
  }
}

/**
 * The calls of a plan. If headers are missing a probe takes several calls, one after the other, until an answer shows
 * something. The last probe comes when the window may just have ended; the probes before it are early, so that the old
 * window is still open. In a short window, which leaves no time for an answer, all calls of a probe are sent at once.
 */
function expandProbes(moments: readonly number[], perProbe: number, length: number): ProbeCall[] {
  return moments.flatMap((moment, probe) => {
    const isLast = probe === moments.length - 1
    const apart = length < SHORT_WINDOW_MS ? 1 : isLast ? AFTER_END_MS : ANSWER_MS
    const first = length < SHORT_WINDOW_MS || isLast ? moment : moment - (perProbe - 1) * apart
    return Array.from({ length: perProbe }, (_, index) => ({ at: first + index * apart, probe }))
  })
}

/** What a plan was made from is not known better by now. */
const isSameStart = (before: ProbeContext, context: ProbeContext): boolean =>
  before.windowStart === context.windowStart &&
  before.firstSentAt === context.firstSentAt &&
  callsPerProbe(before) === callsPerProbe(context)

/** Observations bound the length from above, and Reset does not say that the window is longer. */
const isBoundedByRequest = (context: ProbeContext): boolean => {
  const { maxIfRequestStarts, min, windowStart, earliestReset } = context
  if (!Number.isFinite(maxIfRequestStarts) || maxIfRequestStarts <= min) return false
  return windowStart === null || windowStart + maxIfRequestStarts > earliestReset - CLOSE_MS
}

/** The first request starts no window: that is contradicted. */
const isBoundedByClock = ({ min, max, maxIfRequestStarts }: ProbeContext): boolean =>
  Number.isFinite(max) && maxIfRequestStarts <= min

/** What to try while nothing bounds the length from above; with the last call, what is certain. */
function nextLength(context: ProbeContext, windowStart: number, min: number, isLast: boolean): number | null {
  const { warmGuess, earliestReset, latestReset } = context
  const from = Math.max(min, earliestReset - windowStart)
  const to = latestReset - windowStart
  if (warmGuess !== null && warmGuess > from && warmGuess <= to) return warmGuess
  if (to > min && Number.isFinite(to)) return isLast ? to : (roundestBetween(from, to) ?? to)
  return CANDIDATE_LENGTHS.find((length) => length > from) ?? null
}

/** How many calls are worth reserving. */
function wanted(context: ProbeContext): number {
  const { limit, min, max, earliestReset, windowStart, hasFewSamples } = context
  const perProbe = callsPerProbe(context)
  if (limit === 1 || isKnown(min, max)) return 0
  // The first answers may all have had headers by chance: what is reserved in vain is free some answers later. No more
  // than the few calls that a new window begins with, or none of these would be left.
  if (hasFewSamples && limit >= 20) return Math.min(MAX_RESERVED, Math.floor(limit / 4))
  const isLong = Math.min(max, earliestReset - (windowStart ?? 0)) > LONG_WINDOW_MS
  const share = Math.floor(limit / (perProbe === 1 ? 8 : 4))
  return Math.min(limit - 1, Math.max(2, Math.min((isLong ? 3 : 6) * perProbe, share)))
}

/** Nothing shorter is worth a try: windows are whole and half seconds, and rarely in between. */
function isKnown(min: number, max: number): boolean {
  const shorter = roundestBelow(min, max * PRECISION)
  return shorter === null || (max % 500 === 0 && shorter % 500 !== 0 && min > max * 0.85)
}

/** If headers are missing, an answer that shows something takes up to this many calls. */
const callsPerProbe = ({ headerShare }: ProbeContext): number => Math.min(4, Math.ceil(0.9 / headerShare))

/** How long before its end a window is probed: a call may be this long on its way. Short lengths lie closer together. */
const leadTime = (length: number): number => (length < SHORT_WINDOW_MS ? 60 : 150)
