import { padded, roundestBelow, roundestBetween, type TokenBucket } from './counter.ts'
import type { FixedWindow } from './fixed-window.ts'

/** What is known when a probe is planned. Times on our clock, lengths in milliseconds. */
export interface ProbeContext {
  readonly limit: number
  readonly fixed: FixedWindow
  /** Null unless it is the only counter that is possible. */
  readonly bucket: TokenBucket | null
  /** When the latest answer came. */
  readonly answeredAt: number
  /** The window ends between these, by Reset. */
  readonly earliestReset: number
  readonly latestReset: number
  /** The share of answers that carry headers, and whether it is one of few answers. */
  readonly headerShare: number
  readonly hasFewSamples: boolean
  /** A sliding window or a bucket is possible as well: half-way through a window each of them counts differently. */
  readonly isAmbiguous: boolean
  /** The length by a policy's `w=`; null if there is none. */
  readonly guess: number | null
}

/** In a window this long, a length that is known to a second is known well. */
const LONG_WINDOW_MS = 20_000
/** Up to here a length is tried in tenths of a second. */
const SHORT_WINDOW_MS = 5000
/** Lengths so close that only several calls at once can tell them apart, this long after a window may have ended. */
const CLOSE_MS = 250
const VOLLEY_MS = [4, 12, 20, 28, 36]
/** A length that is known this well is known well enough. */
const PRECISION = 0.994
/** After this many windows in which nothing was learnt, probes become rarer. */
const MOST_IDLE_WINDOWS = 6
const MOST_RESERVED = 24
/** What is tried if nothing bounds the length from above. */
const CANDIDATES = [
  500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
]

/**
 * Calls that are reserved to find out how long a window is: sent just before and just after a length that it may have. The
 * old window has room for them, so that they cannot be refused, and their counts show which window they are in. The
 * roundest possible length is tried first.
 */
export class Probes {
  #window = -1
  #spent = 0
  /** The moments that are left of the plan. */
  #plan: number[] = []
  #tried = 0
  #isOver = false
  /** The plan is all that will be tried in this window: the rest of what was reserved is free. */
  #isFinal = false
  /** What was known when something was learnt last, and the windows since. */
  #known = { min: 0, max: Number.POSITIVE_INFINITY }
  #idleWindows = 0

  /** How many calls to reserve now. */
  reserved(context: ProbeContext, now: number): number {
    if (context.bucket !== null) return bucketProbeAt(context, context.bucket) === null ? 0 : 1
    this.#update(context, now)
    if (this.#isOver) return 0
    return this.#isFinal ? this.#plan.length : Math.max(this.#plan.length, wanted(context) - this.#spent)
  }

  /** When to send the next; null if there is nothing to find out. */
  nextAt(context: ProbeContext, now: number): number | null {
    if (context.bucket !== null) return bucketProbeAt(context, context.bucket)
    this.#update(context, now)
    return this.#plan[0] ?? null
  }

  /** A window in which few calls were wanted was no attempt in vain. */
  onIdle(): void {
    this.#idleWindows = 0
  }

  /** One is granted. */
  consume(): void {
    this.#spent++
    this.#plan.shift()
  }

  #update(context: ProbeContext, now: number): void {
    const { fixed } = context
    if (fixed.id !== this.#window) this.#startWindow(context)
    if (this.#isOver || !Number.isFinite(fixed.by)) return
    // Since it was planned Reset has come to say that the window ends earlier.
    if ((this.#plan[0] ?? 0) > context.latestReset + CLOSE_MS) this.#plan = []
    if (this.#plan.length > 0) return
    const perProbe = callsPerProbe(context)
    const left = Math.floor((wanted(context) - this.#spent) / perProbe)
    const isEarlier = this.#tried > context.latestReset - fixed.by
    const from = Math.max(fixed.min, isEarlier ? 0 : this.#tried, now - fixed.by)
    const length = left > 0 ? nextLength(context, from, left === 1) : null
    this.#isOver = length === null || this.#isFinal
    if (length === null || this.#isFinal) return
    this.#tried = length
    this.#isFinal = boundOf(context) !== null
    const moments = momentsOf(context, length, left, now)
    this.#plan = moments.flatMap((at) => Array.from({ length: perProbe }, (_, index) => at + index))
  }

  #startWindow(context: ProbeContext): void {
    const { fixed } = context
    const isNews =
      fixed.observedMax < this.#known.max * 0.99 || fixed.min > Math.max(1, this.#known.min) * 1.02
    this.#idleWindows = isNews ? 0 : this.#idleWindows + 1
    this.#known = { min: fixed.min, max: fixed.observedMax }
    this.#window = fixed.id
    this.#plan = []
    this.#tried = 0
    this.#spent = 0
    this.#isFinal = false
    const isRare = this.#idleWindows > MOST_IDLE_WINDOWS * callsPerProbe(context)
    this.#isOver = wanted(context) === 0 || (isRare && (this.#idleWindows & (this.#idleWindows - 1)) !== 0)
  }
}

/** When to send the calls that show whether a window has this length: before its end, and after it. @param left how many at most */
function momentsOf(context: ProbeContext, length: number, left: number, now: number): readonly number[] {
  const { fixed, isAmbiguous } = context
  const bound = boundOf(context)
  const start = Math.min(fixed.by, fixed.firstSentAt)
  const over = fixed.by + padded(length)
  const half = isAmbiguous && left > 2 ? [start + length / 2] : []
  const early = [...half, start + length - (length < SHORT_WINDOW_MS ? 60 : 150)]
  const upcoming = (moments: readonly number[]): number[] => moments.filter((at) => at > now)
  if (bound !== null && length > fixed.max * PRECISION) {
    // After the longest possible length the next window is open anyway; half-way to a shorter one it is if that is right.
    const shorter = roundestBelow(fixed.min, length * PRECISION) ?? length
    const between = start + (length + shorter) / 2
    if (length - shorter > 2 * CLOSE_MS) early.push(between)
    return upcoming(early.toSorted((a, b) => a - b)).slice(0, left)
  }
  if (bound === null || bound - length > CLOSE_MS) return upcoming([...early, over]).slice(-left)
  const volley = upcoming([...early, ...VOLLEY_MS.map((late) => start + length + late)])
  // Where the clock may start windows, longer ones are possible: one call comes when this one is over in any case.
  return fixed.max - bound > CLOSE_MS ? [...volley.slice(0, left - 1), over] : volley.slice(0, left)
}

/** Half-way through a fill, because a bucket that is full shows no rate; null if it is known well, or not at all. */
const bucketProbeAt = ({ limit, answeredAt }: ProbeContext, { min, max }: TokenBucket): number | null =>
  limit === 1 || !Number.isFinite(max) || min > max * PRECISION ? null : answeredAt + max / 2

/** The longest length that observations leave; null while they leave any, or if Reset says that the window is longer. */
function boundOf({ fixed, earliestReset }: ProbeContext): number | null {
  const { min, max, maxByRequest, by } = fixed
  if (maxByRequest <= min) return Number.isFinite(max) ? max : null
  return Number.isFinite(maxByRequest) && by + maxByRequest > earliestReset - CLOSE_MS ? maxByRequest : null
}

/** The length to try next, above `from`; null if there is none. With the last call what is certain. */
function nextLength(context: ProbeContext, from: number, isLast: boolean): number | null {
  const { fixed, guess } = context
  const bound = boundOf(context)
  // While the clock may start longer windows, the longest that a request starts is tried even if it is an odd one.
  if (bound !== null)
    return roundestBelow(from, bound) ?? (from < bound && fixed.max - bound > CLOSE_MS ? bound : null)
  const earliest = Math.max(from, context.earliestReset - fixed.by)
  const latest = context.latestReset - fixed.by
  if (guess !== null && guess > earliest && guess <= latest) return guess
  if (latest <= from || !Number.isFinite(latest))
    return CANDIDATES.find((length) => length > earliest) ?? null
  return isLast ? latest : (roundestBetween(earliest, latest) ?? latest)
}

/** How many calls are worth reserving. */
function wanted(context: ProbeContext): number {
  const { limit, fixed, earliestReset, hasFewSamples } = context
  const perProbe = callsPerProbe(context)
  if (limit === 1 || isKnown(fixed.min, fixed.max)) return 0
  // Another client spends what is reserved, and starts windows itself: the calls that are left show their length.
  if (fixed.isShared && Number.isFinite(fixed.max)) return 0
  // The first answers may all have had headers by chance: what is reserved in vain is free some answers later.
  if (hasFewSamples && limit >= 20) return Math.min(MOST_RESERVED, Math.floor(limit / 4))
  const isLong = Math.min(fixed.max, earliestReset - fixed.by) > LONG_WINDOW_MS
  const share = Math.floor(limit / (perProbe === 1 ? 8 : 4))
  return Math.min(limit - 1, Math.max(2, Math.min((isLong ? 3 : 6) * perProbe, share)))
}

/** Nothing shorter is worth a try: windows are whole and half seconds, and rarely in between. */
function isKnown(min: number, max: number): boolean {
  if (!Number.isFinite(max)) return false
  const shorter = roundestBelow(min, max * PRECISION)
  return shorter === null || (max % 500 === 0 && shorter % 500 !== 0 && min > max * 0.85)
}

/** If headers are missing, an answer that shows something takes up to this many calls. */
const callsPerProbe = ({ headerShare }: ProbeContext): number => Math.min(4, Math.ceil(0.9 / headerShare))
