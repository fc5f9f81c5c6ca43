import { roundest } from './bounds.ts'

/** What a plan is made from. Times on our clock, lengths in milliseconds. */
export interface Outlook {
  readonly window: number
  /** The latest moment from which on the window runs; and when the first call was sent that may be in it. */
  readonly runsFrom: number | null
  readonly firstSentAt: number
  /** Between these the window's length lies. */
  readonly least: number
  readonly most: number
  /** Between these the window ends, as Reset says. */
  readonly endsFrom: number
  readonly endsBy: number
  readonly limit: number
  /** The share of answers that carry headers. */
  readonly headerShare: number
}

/**
 * Calls that are held back to find out how long a window is. Sent when the window may just have ended, such a
 * call cannot be refused, because the old window still has room for it; and its answer shows which window it was
 * counted in. One is sent shortly before the end that is tried, to see the old window still there, and some around
 * it. The longest length that is possible is tried first, then the roundest that is shorter.
 */
export class Probes {
  #window = -1
  /** Null: not made yet. */
  #times: number[] | null = null
  /** Tried in this window without an answer that settled it. */
  #tried = 0
  #spent = 0
  /** The longest possible length that was tried last, and how often since something shorter was. */
  #most = Number.POSITIVE_INFINITY
  #attempts = 0

  /** How many calls to hold back now. */
  held(outlook: Outlook, now: number): number {
    this.#update(outlook, now)
    if (this.#times === null) return wanted(outlook)
    const isMoreToTry = this.#times.length > 0 && !Number.isFinite(outlook.most)
    return Math.max(this.#times.length, isMoreToTry ? wanted(outlook) - this.#spent : 0)
  }

  /** When the next of them is to be sent; null where there is nothing to find out. */
  nextAt(outlook: Outlook, now: number): number | null {
    this.#update(outlook, now)
    return this.#times?.[0] ?? null
  }

  spend(): void {
    this.#spent++
    this.#times?.shift()
  }

  #update(outlook: Outlook, now: number): void {
    if (outlook.window !== this.#window) {
      this.#window = outlook.window
      this.#times = null
      this.#tried = 0
      this.#spent = 0
    }
    if (outlook.most < this.#most * 0.99) {
      this.#most = outlook.most
      this.#attempts = 0
    }
    if (this.#times === null && (this.#attempts > enough || wanted(outlook) === 0)) this.#times = []
    if (outlook.runsFrom === null) return
    const isBounded = Number.isFinite(outlook.most)
    if (this.#times === null) {
      if (isBounded) this.#attempts++
      this.#times = this.#plan(outlook, outlook.runsFrom, now)
    } else if (this.#times.length === 0 && !isBounded) {
      this.#times = this.#plan(outlook, outlook.runsFrom, now)
    }
  }

  #plan(outlook: Outlook, runsFrom: number, now: number): number[] {
    const first = Math.min(runsFrom, outlook.firstSentAt)
    if (Number.isFinite(outlook.most)) {
      const length = this.#attempts % 3 === 0 ? null : roundest(outlook.least, outlook.most * 0.985)
      const from = length === null ? first + outlook.most - shortly : first + length + 4
      return Array.from({ length: wanted(outlook) }, (_, index) => from + 8 * index)
    }
    const length = this.#next(outlook, runsFrom, now)
    if (length === null) return []
    this.#tried = length
    const late = runsFrom + length + margin(length)
    const times = [late, first + length - shortly, first + length + 4].slice(0, Math.min(3, wanted(outlook)))
    return times.filter((at) => at > now).sort((a, b) => a - b)
  }

  /** What to try while nothing bounds the length from above. */
  #next(outlook: Outlook, runsFrom: number, now: number): number | null {
    const least = Math.max(outlook.least, this.#tried, now - runsFrom, outlook.endsFrom - runsFrom)
    const most = outlook.endsBy - runsFrom
    if (most > least && Number.isFinite(most)) return roundest(least, most)
    return ladder.find((rung) => rung > least) ?? null
  }
}

/** How many calls are worth holding back. */
function wanted(outlook: Outlook): number {
  const { limit, least, most } = outlook
  if (limit === 1) return 0
  const some = Math.min(limit - 1, Math.max(limit < 10 ? 1 : 2, Math.floor(limit / 8)))
  if (!Number.isFinite(most))
    return Math.min(limit - 1, Math.max(2, Math.floor(limit / 4)), 8 * copies(outlook))
  return isSettled(least, most) ? 0 : Math.min(some, 6 * copies(outlook))
}

/** Nothing shorter is worth a try: windows are set in whole and half seconds, and rarely in between. */
const isSettled = (least: number, most: number): boolean =>
  roundest(least, most * 0.985) === null || (most % 500 === 0 && least > most * 0.85)

/** Where headers are missing, an answer that tells something takes several calls. */
const copies = ({ headerShare }: Outlook): number => Math.min(4, Math.ceil(0.9 / headerShare))

/** Two clocks drift apart by up to 0.01%, and a timer may ring a moment early. */
export const margin = (length: number): number => 2 + length / 10_000

/** In milliseconds. */
const shortly = 60

/** After so many windows in which nothing shorter was found, the length is taken for settled. */
const enough = 6

/** What is tried where nothing bounds the length from above. */
const ladder = [
  500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
]
