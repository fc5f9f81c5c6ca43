import type { Logger } from 'pino'
import type { RateStatus } from '../domain/rate-status.ts'

/** Log the reason of waits longer than this, in milliseconds. */
const LONG_WAIT_MS = 10_000

/** With one-minute windows, calls wait every minute: log the same reason at most this often, in milliseconds. */
const REPEAT_AFTER_MS = 10 * 60_000

/**
 * Logs what an operator must know about the rate: that calls wait and why, when they continue, that the service has
 * banned the key, and that another client uses it. Each once when it starts, and the end of a ban.
 */
export class RateLog {
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #scope: string
  #isShared = false
  #isBanned = false
  /** Reason of the last wait, and when it was logged. */
  #lastLoggedWait: { readonly state: string; readonly at: number } | null = null
  /** Start of the wait that was logged. */
  #waitingSince: number | null = null

  constructor(log: Pick<Logger, 'info' | 'warn'>, scope: string) {
    this.#log = log
    this.#scope = scope
  }

  /** @param now in milliseconds, monotonic */
  observe(rate: RateStatus, now: number): void {
    this.#logBan(rate)
    this.#logSharedKey(rate)
    this.#logWait(rate, now)
  }

  #logBan(rate: RateStatus): void {
    const isBanned = rate.state === 'banned'
    if (isBanned === this.#isBanned) return
    this.#isBanned = isBanned
    const context = { scope: this.#scope, throttled: rate.throttled }
    if (isBanned)
      this.#log.warn(
        context,
        'the service has banned the key for a while (403 after 429): calls stop, and an occasional probe finds out ' +
          'when they may continue. Nothing is lost. Give each client of the service its own key',
      )
    else this.#log.info(context, 'the service accepts the key again; calls continue')
  }

  #logSharedKey(rate: RateStatus): void {
    if (rate.sharedKey && !this.#isShared)
      this.#log.warn(
        { scope: this.#scope },
        'another client uses the same key: capacity is left for it, and calls may be rejected. Give each client its own key',
      )
    this.#isShared = rate.sharedKey
  }

  #logWait(rate: RateStatus, now: number): void {
    const waitedMs = rate.stallReason === null ? 0 : (rate.stalledForMs ?? 0)
    if (waitedMs < LONG_WAIT_MS) {
      if (this.#waitingSince !== null)
        this.#log.info(
          { scope: this.#scope, waited_ms: Math.round(now - this.#waitingSince) },
          'calls continue',
        )
      this.#waitingSince = null
      return
    }
    const last = this.#lastLoggedWait
    if (last !== null && last.state === rate.state && now - last.at < REPEAT_AFTER_MS) return
    this.#lastLoggedWait = { state: rate.state, at: now }
    this.#waitingSince ??= now - waitedMs
    this.#log.info(
      { scope: this.#scope, waited_ms: Math.round(waitedMs), state: rate.state, limit: rate.limit },
      `calls wait: ${rate.stallReason}`,
    )
  }
}
