/**
 * The halt after a 429. At least as long as Retry-After says, and at least twice as long as the last one where a
 * refusal follows a refusal: repeated excess may cause a ban.
 */
export class Halt {
  #until = Number.NEGATIVE_INFINITY
  #last = 0
  #refusals = 0
  #isBan = false
  #refusedUntil = Number.NEGATIVE_INFINITY
  #pause = 0
  /** When the latest two calls were refused, the earlier first. */
  #latest: readonly number[] = []

  get until(): number {
    return this.#until
  }

  get refusals(): number {
    return this.#refusals
  }

  isOn(now: number): boolean {
    return now < this.#until
  }

  /**
   * @param sentAt a call that was sent before the last halt was over belongs to the same refusal
   * @param renewedAt the moment at which the limit is renewed, where it is known
   * @returns whether it is a new refusal, and no other call of one that was answered before
   */
  refused(sentAt: number, now: number, retryAfterMs: number | null, renewedAt: number | null): boolean {
    const isSame = sentAt < this.#until
    this.#refusals++
    this.#latest = [...this.#latest, now].slice(-2)
    if (!isSame) this.#last = Math.min(longest, Math.max(shortest, this.#last * 2))
    const asked = retryAfterMs ?? (renewedAt === null ? 0 : Math.max(0, renewedAt - now))
    const wait = Math.max(this.#last, asked)
    if (!isSame) this.#last = wait
    this.#until = Math.max(this.#until, now + wait)
    this.#refusedUntil = this.#until
    return !isSame
  }

  /** The service has banned the key; true until a call is answered otherwise. */
  get isBan(): boolean {
    return this.#isBan
  }

  /** Whether the 403 to a call is a ban: it was sent soon after the halt of a refusal, or the ban is known. */
  followsRefusal(sentAt: number): boolean {
    return this.#isBan || (this.#latest.length > 0 && sentAt < this.#refusedUntil + banFollows)
  }

  /**
   * A 403 after refusals for the rate. Waited out: as long as Retry-After says, or for pauses that grow with each
   * call that finds the ban still there.
   */
  banned(sentAt: number, now: number, retryAfterMs: number | null): void {
    const isSame = this.#isBan && sentAt < this.#until
    if (!this.#isBan) this.#pause = firstBan
    else if (!isSame) this.#pause = Math.min(longest, this.#pause * 2)
    this.#isBan = true
    this.#until = Math.max(this.#until, isSame ? 0 : now + Math.max(this.#pause, retryAfterMs ?? 0))
  }

  /** The process before was banned. */
  inheritBan(): void {
    this.#isBan = true
    this.#pause = firstBan
  }

  /** Another client spends the key too: after a second refusal within ten seconds none may follow in these. */
  spareTheKey(now: number): void {
    const [before, last] = this.#latest
    if (before !== undefined && last !== undefined && now - before < spared) this.wait(before + spared)
  }

  /** Waits without a refusal. */
  wait(until: number): void {
    this.#until = Math.max(this.#until, until)
  }

  /** An answer that is no refusal, to a call that was sent after the halt. */
  accepted(sentAt: number): void {
    if (sentAt < this.#until) return
    this.#last = 0
    this.#isBan = false
  }
}

/** In milliseconds. A service that refuses and does not say for how long is left alone for a second. */
const shortest = 1000
const longest = 15 * 60_000
const spared = 10_000

/** So soon after the halt of a refusal a 403 is a ban. */
const banFollows = 60_000

/** The first pause of a ban of which the service does not say how long it is. */
const firstBan = 30_000
