import { roundest, roundestBelow } from './bounds.ts'
import { triesOf } from './looks.ts'
import type { Try } from './looks.ts'

/** What a plan is made from. Times on our clock, lengths in milliseconds. */
export interface Outlook {
  readonly window: number
  /** The latest moment from which on the window runs; and when the first call was sent that may be in it. */
  readonly runsFrom: number | null
  readonly firstSentAt: number
  /** Between these the window's length lies. */
  readonly least: number
  readonly most: number
  /** The longest as it was seen, before it is taken for a round one. */
  readonly seenMost: number
  /** The longest if the first request starts a window. */
  readonly hoped: number
  /** Between these the window ends, as Reset says. */
  readonly endsFrom: number
  readonly endsBy: number
  readonly limit: number
  /** The share of answers that carry headers, whether it is of a few answers only, and when the latest was sent for. */
  readonly headerShare: number
  readonly isUnsure: boolean
  readonly toldAt: number
  /** How long the window was when it was last known; null where it was not. */
  readonly guess: number | null
}

/**
 * Calls that are held back to find out how long a window is. Sent when the window may just have ended, such a
 * call cannot be refused, because the old window still has room for it; and its answer shows which window it was
 * counted in. Where headers are missing, a look takes several such calls. One is sent shortly before the end that is
 * tried, to see the old window still there, and some around it. The longest length that is possible is tried first, then the roundest that is shorter.
 */
export class Probes {
  #window = -1
  #times: readonly Try[] = []
  /** The look that was begun last, and when. */
  #looking: { readonly look: number; readonly since: number } | null = null
  /** What the times were planned by; null once one of them has come. */
  #basis: Basis | null = null
  /** The length that was tried last in this window, and the calls spent in it. */
  #tried = 0
  #spent = 0
  #isOver = false
  /** What is planned is all that will be tried in this window: the rest of what was held back is free. */
  #isLast = false
  /** What was known when something was learnt last, and the windows since. */
  #least = 0
  #most = Number.POSITIVE_INFINITY
  #inVain = 0
  #lastTried: number | null = null

  /** How many calls to hold back now. */
  held(outlook: Outlook, now: number): number {
    this.#update(outlook, now)
    if (this.#isOver) return 0
    return this.#isLast ? this.#times.length : Math.max(this.#times.length, wanted(outlook) - this.#spent)
  }

  /** When the next of them is to be sent; null where there is nothing to find out. */
  nextAt(outlook: Outlook, now: number): number | null {
    this.#update(outlook, now)
    return this.#times[0]?.at ?? null
  }

  /** Nothing was wanted for a while: windows in which a few calls were enough were no tries in vain. */
  rested(): void {
    this.#inVain = 0
    this.#lastTried = null
  }

  spend(now: number): void {
    this.#spent++
    this.#basis = null
    const [first, ...others] = this.#times
    if (first !== undefined && first.look !== this.#looking?.look)
      this.#looking = { look: first.look, since: now }
    this.#times = others
  }

  #update(outlook: Outlook, now: number): void {
    if (outlook.window !== this.#window) this.#turn(outlook)
    if (this.#isOver || outlook.runsFrom === null) return
    const looking = this.#looking
    // An answer has told what the look was for: what is left of it is free.
    if (looking !== null && outlook.toldAt >= looking.since)
      this.#times = this.#times.filter(({ look }) => look !== looking.look)
    const basis = this.#basis
    if (basis !== null && !isBasisOf(basis, outlook)) {
      this.#tried = basis.tried
      this.#lastTried = basis.lastTried
      this.#times = []
    }
    if (this.#times.length > 0) return
    const { runsFrom, firstSentAt } = outlook
    this.#basis = {
      runsFrom,
      firstSentAt,
      copies: copies(outlook),
      tried: this.#tried,
      lastTried: this.#lastTried,
    }
    const looks = this.#plan(outlook, outlook.runsFrom, now)
    this.#looking = null
    this.#times = triesOf(looks, copies(outlook), this.#tried)
    this.#isOver = this.#times.length === 0
    this.#isLast = isHopeful(outlook) || isOnClock(outlook)
  }

  #turn(outlook: Outlook): void {
    this.#window = outlook.window
    this.#times = []
    this.#looking = null
    this.#basis = null
    this.#tried = 0
    this.#spent = 0
    this.#isLast = false
    const isNews = outlook.seenMost < this.#most * 0.99 || outlook.least > Math.max(1, this.#least) * 1.02
    this.#inVain = isNews ? 0 : this.#inVain + 1
    this.#least = outlook.least
    this.#most = outlook.seenMost
    this.#isOver = wanted(outlook) === 0 || !isTurn(this.#inVain, enough * copies(outlook))
  }

  /** The roundest length first; where that was tried in vain, a shorter one every other time. */
  #pick(least: number, hoped: number): number | null {
    if (isSettled(least, hoped)) return null
    const longest = roundestBelow(least, hoped)
    const isRetry = longest !== null && longest === this.#lastTried && !isSettled(least, longest)
    const shorter = isRetry ? roundestBelow(least, longest * enoughOf) : null
    this.#lastTried = shorter ?? longest
    return this.#lastTried
  }

  #plan(outlook: Outlook, runsFrom: number, now: number): number[] {
    const left = Math.floor((wanted(outlook) - this.#spent) / copies(outlook))
    if (left <= 0) return []
    const first = Math.min(runsFrom, outlook.firstSentAt)
    const late = (length: number): number => runsFrom + length + margin(length)
    const { hoped } = outlook
    const least = Math.max(outlook.least, this.#tried, now - runsFrom)
    if (isHopeful(outlook)) {
      if (this.#tried >= hoped) return []
      this.#tried = hoped
      const isWaste = outlook.most > hoped + near
      const length = this.#pick(least, hoped)
      if (length === null) return isWaste ? [first + hoped - shortly(hoped), late(hoped)].slice(-left) : []
      if (length > hoped * enoughOf && !isWaste)
        return lateBefore(first, length, outlook.least).slice(0, left)
      if (length > hoped * enoughOf || hoped - length > near)
        return [first + length - shortly(length), late(length)].slice(-left)
      const volley = [-shortly(length), 4, 12, 20, 28, 36].map((after) => first + length + after)
      return isWaste ? [...volley.slice(0, left - 1), late(length)] : volley.slice(0, left)
    }
    if (isOnClock(outlook)) return onClock(first, outlook).filter((at) => at > now)
    const length = nextLength(outlook, runsFrom, least, left === 1)
    if (length === null) return []
    const isFirst = this.#tried === 0
    this.#tried = length
    const before = first + length - shortly(length)
    if (left < 4 || !isFirst) return [before, late(length)].slice(-left)
    return [first + (before - first) / 2, before, late(length)].filter((at) => at > now)
  }
}

/** Something that was seen bounds the length from above, and Reset does not say that the window is longer. */
const isHopeful = ({ hoped, least, runsFrom, endsFrom }: Outlook): boolean =>
  Number.isFinite(hoped) && hoped > least && (runsFrom === null || runsFrom + hoped > endsFrom - near)

/**
 * To see the window still there when no shorter length is possible any more, and shortly before its end. A window
 * that the clock starts is some way on when its first call comes.
 */
function lateBefore(first: number, length: number, least: number): number[] {
  const before = first + length - shortly(length)
  const shorter = roundestBelow(least, length * enoughOf)
  if (shorter === null) return [before]
  const between = first + (length + shorter) / 2
  return before - between > near ? [between, before] : [before]
}

const isOnClock = ({ least, most, hoped }: Outlook): boolean => Number.isFinite(most) && hoped <= least

/**
 * The clock starts the windows, because what the first request would allow is refuted: how long they are at most is
 * known by then, and to see the window still there when no shorter length is possible any more is all that is left.
 */
function onClock(first: number, { least, most }: Outlook): number[] {
  const shorter = roundestBelow(least, most * enoughOf)
  return shorter === null ? [] : [first + (most + shorter) / 2]
}

/** Tries get rarer when nothing is learnt from them. */
const isTurn = (inVain: number, often: number): boolean => inVain <= often || (inVain & (inVain - 1)) === 0

/** What to try while nothing that was seen bounds the length from above; with the last call, what is certain. */
function nextLength(outlook: Outlook, runsFrom: number, least: number, isLast: boolean): number | null {
  const from = Math.max(least, outlook.endsFrom - runsFrom)
  const to = outlook.endsBy - runsFrom
  if (outlook.guess !== null && outlook.guess > from && outlook.guess <= to) return outlook.guess
  if (to > least && Number.isFinite(to)) return isLast ? to : (roundest(from, to) ?? to)
  return ladder.find((rung) => rung > from) ?? null
}

/** How many calls are worth holding back. */
function wanted(outlook: Outlook): number {
  const { limit, least, most } = outlook
  const share = copies(outlook) === 1 ? 8 : 4
  if (limit === 1 || isSettled(least, most)) return 0
  const isLong = Math.min(most, outlook.endsFrom - (outlook.runsFrom ?? 0)) > long
  // The first answers may all have had headers by chance: what is held back for nothing is free some answers later.
  // No more than the few that a new window begins with, or nothing of these would be left.
  if (outlook.isUnsure) return Math.min(mostHeld, Math.floor(limit / 4))
  return Math.min(
    limit - 1,
    Math.max(2, Math.min((isLong ? 3 : 6) * copies(outlook), Math.floor(limit / share))),
  )
}

/** The most that is held back where headers are missing. */
const mostHeld = 24

/** A length that is known as well as this is known well enough. */
const enoughOf = 0.994

/** Nothing shorter is worth a try: windows are set in whole and half seconds, and rarely in between. */
function isSettled(least: number, most: number): boolean {
  if (most === Number.POSITIVE_INFINITY) return false
  const shorter = roundestBelow(least, most * enoughOf)
  return shorter === null || (most % 500 === 0 && shorter % 500 !== 0 && least > most * 0.85)
}

/** What a plan was made by: where that is known better, it is made anew. */
interface Basis {
  readonly runsFrom: number
  readonly firstSentAt: number
  readonly copies: number
  /** What was tried before. */
  readonly tried: number
  readonly lastTried: number | null
}

const isBasisOf = (basis: Basis, outlook: Outlook): boolean =>
  basis.runsFrom === outlook.runsFrom &&
  basis.firstSentAt === outlook.firstSentAt &&
  basis.copies === copies(outlook)

/** Where headers are missing, an answer that tells something takes up to so many calls. */
const copies = ({ headerShare }: Outlook): number => Math.min(4, Math.ceil(0.9 / headerShare))

/** Two clocks drift apart by up to 0.01%, and a timer may ring a moment early. */
export const margin = (length: number): number => 2 + length / 10_000

/**
 * How long before its end a window is looked at, in milliseconds: a call may be so long on its way. Short windows are
 * looked at later, because their lengths lie closer together.
 */
const shortly = (length: number): number => (length < 5000 ? 60 : 150)

/** Of a window this long, a length that is known to a second is known well. */
const long = 20_000

/** Lengths so close that only several calls at once can tell them apart. */
const near = 250

/** After so many windows in which nothing was learnt, it is tried less and less. */
const enough = 6

/** What is tried where nothing bounds the length from above. */
const ladder = [
  500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
]
