import type { Logger } from 'pino'
import type { RateState } from '../service/rate-limit/limiter.ts'

/** Calls that wait for longer are logged with the reason, in milliseconds. */
const LONG_WAIT_MS = 10_000

/** Windows of a minute make calls wait each minute: for the same reason no more than one line in so long, in milliseconds. */
const REPEAT_AFTER_MS = 10 * 60_000

/**
 * Logs what of the rate an operator must know: that calls wait and why, and when they go on, that the service has banned the key, and that
 * another client spends it. Each once, when it begins, and the end of a ban.
 */
export class RateLog {
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #scope: string
  #isShared = false
  #isBanned = false
  /** The state in which calls waited last, and when that was logged. */
  #lastLoggedWait: { readonly state: string; readonly at: number } | null = null
  /** Since when the calls wait whose wait was logged. */
  #waitingSince: number | null = null

  constructor(log: Pick<Logger, 'info' | 'warn'>, scope: string) {
    this.#log = log
    this.#scope = scope
  }

  /** @param now in milliseconds, by any clock that does not go back */
  observe(rate: RateState, now: number): void {
    this.#logBan(rate)
    this.#logSharedKey(rate)
    this.#logWait(rate, now)
  }

  #logBan(rate: RateState): void {
    const isBanned = rate.state === 'banned'
    if (isBanned === this.#isBanned) return
    this.#isBanned = isBanned
    const about = { scope: this.#scope, throttled: rate.throttled }
    if (isBanned)
      this.#log.warn(
        about,
        'the service bans the key for a while (403 after 429): calling stops, and one call now and then finds out ' +
          'when it may go on. Nothing is lost. Give each client of the service a key of its own',
      )
    else this.#log.info(about, 'the service accepts the key again: calling goes on')
  }

  #logSharedKey(rate: RateState): void {
    if (rate.foreign && !this.#isShared)
      this.#log.warn(
        { scope: this.#scope },
        'another client spends the same key: room is left for it, and calls may be refused. Give each client a key of its own',
      )
    this.#isShared = rate.foreign
  }

  #logWait(rate: RateState, now: number): void {
    const waitedMs = rate.waiting === null ? 0 : (rate.waitingForMs ?? 0)
    if (waitedMs < LONG_WAIT_MS) {
      if (this.#waitingSince !== null)
        this.#log.info({ scope: this.#scope, waited_ms: Math.round(now - this.#waitingSince) }, 'calls go on')
      this.#waitingSince = null
      return
    }
    const last = this.#lastLoggedWait
    if (last !== null && last.state === rate.state && now - last.at < REPEAT_AFTER_MS) return
    this.#lastLoggedWait = { state: rate.state, at: now }
    this.#waitingSince ??= now - waitedMs
    this.#log.info(
      { scope: this.#scope, waited_ms: Math.round(waitedMs), state: rate.state, limit: rate.limit },
      `calls wait: ${rate.waiting}`,
    )
  }
}
