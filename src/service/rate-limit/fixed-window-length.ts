import { LengthBounds, snapToRound } from './length-bounds.ts'
import type { CallResult } from './call-ledger.ts'
import type { FixedWindow } from './fixed-window.ts'
import type { Reset } from './headers.ts'
import type { WindowModel } from './rolling-windows.ts'
import type { SharedKeyDetector } from './shared-key.ts'

/** When one window started, as far as its first answer shows. */
export interface WindowStart {
  /** It started no earlier, and no later, on our clock. */
  readonly after: number
  readonly by: number
  /** When the first call was sent that may have been in the window before it. */
  readonly previousFirstSentAt: number
}

const STARTS_KEPT = 16

/** Windows that the clock starts are whole or half seconds long; of others the short ones are tenths. */
const CLOCK_STEP = 500
const stepFor = (length: number): number => (length < 5000 ? 100 : CLOCK_STEP)

/**
 * How long a fixed window is. From below: a call that was sent this long after the window's first answer was still
 * counted in it. From above it depends on what starts a window, which no header says, so the longer of two holds:
 *
 * - The first request starts it: then not before that was sent, and the next window's first answer ends it. Over several
 *   windows in a row the time of the answers counts once.
 * - The clock starts it, at any moment before the first request: then several windows in a row took at least as many
 *   lengths.
 *
 * The instants in Reset bound it whatever starts a window.
 */
export class FixedWindowModel implements WindowModel {
  #min = 0
  #maxIfRequestStarts = Number.POSITIVE_INFINITY
  #maxIfClockAligned = Number.POSITIVE_INFINITY
  /** Remaining rose by a part of what was used: no fixed window does that. */
  #hasPartialRefill = false
  readonly #resets = new ResetInstants()
  #starts: WindowStart[] = []
  /** The window whose start was reported last. */
  #reported: number
  /** Another client's request may have started a window, at any moment before ours, and made Remaining rise by less. */
  readonly #isShared: boolean
  readonly #window: FixedWindow
  readonly #shared: SharedKeyDetector
  readonly #isOdd: boolean

  /** @param isOdd nothing is to be taken for a round length */
  constructor(window: FixedWindow, shared: SharedKeyDetector, isOdd = false) {
    this.#window = window
    this.#shared = shared
    this.#isOdd = isOdd
    this.#isShared = shared.isDetected
    this.#reported = window.startedBy === null ? window.id - 1 : window.id
  }

  get isContradicted(): boolean {
    return this.#hasPartialRefill || this.bounds.isEmpty
  }

  get bounds(): LengthBounds {
    const bounds = new LengthBounds()
    bounds.raiseMin(this.#min)
    bounds.lowerMax(Math.max(this.maxIfRequestStarts, this.#maxOnClock))
    bounds.lowerMax(this.#snap(this.#resets.max))
    return bounds
  }

  get safeLength(): number {
    return this.bounds.max
  }

  get min(): number {
    return this.#min
  }

  /** The longest as it was observed, before it is taken for a round one. */
  get observedMax(): number {
    return Math.min(this.#resets.max, Math.max(this.#maxIfRequestStarts, this.#maxIfClockAligned))
  }

  /** The longest if the first request starts a window. */
  get maxIfRequestStarts(): number {
    const max = Math.min(this.#resets.max, this.#maxIfRequestStarts)
    return this.#snap(max, this.#isShared ? CLOCK_STEP : stepFor(max))
  }

  /** The longest if the clock starts windows. */
  get #maxOnClock(): number {
    const max = this.#snap(this.#maxIfClockAligned, CLOCK_STEP)
    if (this.#isShared || this.#isOdd || !Number.isFinite(this.#maxIfRequestStarts)) return max
    return this.#resets.longestLattice(this.#min, max)
  }

  #snap(max: number, step = stepFor(max)): number {
    return this.#isOdd ? max : snapToRound({ min: this.#min, max }, step)
  }

  onAnswer(result: CallResult, _limit: number, otherCalls: number): void {
    const evidence = this.#window.onCompleted(result, this.#min, otherCalls)
    const { startedBy, startedAfter, previousFirstSentAt, id, idleUntil } = this.#window
    if (evidence === 'partial') this.onPartialRefill()
    if (evidence === 'next') this.#shared.onNewWindow()
    if (startedBy === null) return
    if (evidence === 'same' && startedBy >= idleUntil) this.raiseMin(result.call.sentAt - startedBy)
    if (id === this.#reported) return
    this.#reported = id
    this.onWindowStart({ after: startedAfter, by: startedBy, previousFirstSentAt })
  }

  onReset(reset: Reset, sentAt: number, receivedAt: number): void {
    this.#resets.record(reset, sentAt, receivedAt)
  }

  /** What comes after an idle time says nothing about the window before it. */
  onIdle(now: number): void {
    this.#window.idleUntil = now
    this.#starts = []
    this.#resets.onIdle()
  }

  raiseMin(length: number): void {
    this.#min = Math.max(this.#min, length)
  }

  onPartialRefill(): void {
    this.#hasPartialRefill = !this.#isShared
  }

  /** A window has started after the last one reported here. */
  onWindowStart(start: WindowStart): void {
    for (const [index, earlier] of this.#starts.entries()) {
      const windows = this.#starts.length - index
      const { previousFirstSentAt } = this.#starts[index + 1] ?? start
      const first = this.#isShared ? earlier.after : previousFirstSentAt
      this.#maxIfClockAligned = Math.min(this.#maxIfClockAligned, (start.by - earlier.after) / windows)
      this.#maxIfRequestStarts = Math.min(this.#maxIfRequestStarts, (start.by - first) / windows)
    }
    this.#starts.push(start)
    if (this.#starts.length > STARTS_KEPT) this.#starts.shift()
  }
}

interface ResetInstant {
  readonly at: number
  readonly tolerance: number
  /** Counted up with each idle time: any number of windows may lie between the instants of two stretches. */
  readonly stretch: number
}

/** In milliseconds. */
const JITTER = 5
const SHORTEST_WINDOW = 400
const INSTANTS_KEPT = 12

/** In a longer window a second, which is what a lattice gains, is next to nothing. */
const LONGEST_LATTICE = 120_000

/**
 * What Reset says about a window's length by no clock but the service's own: the ends of windows are at least a length
 * apart. A Reset in milliseconds gives the length; one rounded to the second is up to a second off over several windows.
 */
export class ResetInstants {
  max = Number.POSITIVE_INFINITY
  #instants: readonly ResetInstant[] = []
  #stretch = 0
  /** The longest lattice up to `searchedTo`. */
  #lattice = 0
  #searchedTo = Number.NaN

  onIdle(): void {
    this.#stretch++
  }

  record(reset: Reset, sentAt: number, receivedAt: number): void {
    const at = reset.kind === 'instant' ? reset.at : receivedAt + reset.ms
    const tolerance = reset.precision + (reset.kind === 'instant' ? JITTER : receivedAt - sentAt)
    // Some services compute the end anew for each answer: it is another one only if it differs by more than that.
    const same = Math.max(SHORTEST_WINDOW, 1.5 * tolerance)
    if (this.#instants.some((earlier) => Math.abs(at - earlier.at) < same)) return
    const instants = [...this.#instants, { at, tolerance, stretch: this.#stretch }].sort(
      (a, b) => a.at - b.at,
    )
    const index = instants.findIndex((instant) => instant.at === at)
    for (const [other, earlier] of instants.entries()) {
      if (other === index || earlier.stretch !== this.#stretch) continue
      this.max = Math.min(this.max, (Math.abs(at - earlier.at) + tolerance) / Math.abs(index - other))
    }
    this.#instants = instants.slice(-INSTANTS_KEPT)
    this.#searchedTo = Number.NaN
  }

  /** The longest length of which all instants are whole multiples apart; 0 if none is: the clock starts no windows. */
  longestLattice(min: number, max: number): number {
    if (max > LONGEST_LATTICE || this.#instants.length === 0) return max
    if (max !== this.#searchedTo) {
      this.#searchedTo = max
      this.#lattice = Math.floor(max / CLOCK_STEP) * CLOCK_STEP
      while (this.#lattice > 0 && !this.#isLattice(this.#lattice)) this.#lattice -= CLOCK_STEP
    }
    return this.#lattice > min ? this.#lattice : 0
  }

  #isLattice(length: number): boolean {
    const tolerance = Math.max(...this.#instants.map((instant) => instant.tolerance))
    const first = this.#instants[0]?.at ?? 0
    if (2 * tolerance >= length) return true
    const offsets = this.#instants.map(({ at }) => {
      const offset = (at - first) % length
      return offset > length / 2 ? offset - length : offset
    })
    // All are rounded in the same way, so no two differ by more than one tolerance.
    return Math.max(...offsets) - Math.min(...offsets) <= tolerance
  }
}
