/** In milliseconds. A service that refuses and states no time is left alone for a second. */
const MIN_COOLDOWN = 1000
const MAX_COOLDOWN = 15 * 60_000

/** Beside another client: at most two 429s in this time. */
const TWO_REJECTIONS_MS = 10_000

/** A 403 this soon after the cooldown of a 429 is a ban. */
const BAN_FOLLOWS_MS = 60_000

/** The first pause of a ban whose length the service does not state. */
export const FIRST_BAN_PAUSE = 30_000

/**
 * The pause after a 429: at least as long as Retry-After, and at least twice as long as the last one if one 429 follows
 * another, because repeated excess may cause a ban. And the ban.
 */
export class Cooldown {
  until = Number.NEGATIVE_INFINITY
  /** 429s seen. */
  rejections = 0
  /** The service has banned the key; true until a call is answered otherwise. */
  isBan = false
  #lastMs = 0
  #rejectedUntil = Number.NEGATIVE_INFINITY
  /** When the latest two calls were refused, the earlier first. */
  #latest: readonly number[] = []
  /** A call that was sent after the last cooldown was answered. */
  #isProven = false
  /** 403s since then without an answer between them. */
  #forbidden = 0
  #banPause = FIRST_BAN_PAUSE

  isActive(now: number): boolean {
    return now < this.until
  }

  /**
   * @param sentAt a call that was sent before the end of the last cooldown belongs to the same rejection
   * @param resetAt when the limit is renewed, if known
   * @returns whether it is a new rejection
   */
  onRejected(sentAt: number, now: number, retryAfterMs: number | null, resetAt: number | null): boolean {
    const isSame = sentAt < this.until
    this.#isProven = false
    this.rejections++
    this.#latest = [...this.#latest, now].slice(-2)
    if (!isSame) this.#lastMs = Math.min(MAX_COOLDOWN, Math.max(MIN_COOLDOWN, this.#lastMs * 2))
    const requested = retryAfterMs ?? (resetAt === null ? 0 : Math.max(0, resetAt - now))
    const wait = Math.max(this.#lastMs, requested)
    if (!isSame) this.#lastMs = wait
    this.waitUntil(now + wait)
    this.#rejectedUntil = this.until
    return !isSame
  }

  /**
   * Whether a 403 is a ban: the call was sent soon after the cooldown of a 429, or the ban is known. Once another call was
   * answered after the cooldown, a single 403 is about its input; two in a row are a ban.
   */
  isBanResponse(sentAt: number): boolean {
    if (this.isBan) return true
    if (this.#latest.length === 0 || sentAt >= this.#rejectedUntil + BAN_FOLLOWS_MS) return false
    return !this.#isProven || ++this.#forbidden >= 2
  }

  /** A ban is waited out: for Retry-After, or for pauses that double with each call that is still banned. */
  onBanned(sentAt: number, now: number, retryAfterMs: number | null): void {
    const isSame = this.isBan && sentAt < this.until
    if (!this.isBan) this.#banPause = FIRST_BAN_PAUSE
    else if (!isSame) this.#banPause = Math.min(MAX_COOLDOWN, this.#banPause * 2)
    this.isBan = true
    if (!isSame) this.waitUntil(now + Math.max(this.#banPause, retryAfterMs ?? 0))
  }

  /** The previous process was banned. */
  inheritBan(): void {
    this.isBan = true
  }

  /** Another client spends the key too: after a second 429 within ten seconds none may follow in these. */
  limitRejections(): void {
    const [before, last] = this.#latest
    if (before !== undefined && last !== undefined && last - before < TWO_REJECTIONS_MS)
      this.waitUntil(before + TWO_REJECTIONS_MS)
  }

  /** Waits without a rejection. */
  waitUntil(until: number): void {
    this.until = Math.max(this.until, until)
  }

  /** A call was not refused. */
  onAccepted(sentAt: number): void {
    if (sentAt < this.until) return
    this.#lastMs = 0
    this.isBan = false
    this.#isProven = true
    this.#forbidden = 0
  }
}
