import type { RateState } from '../../service/limiter.ts'

/** Calls that have waited for so long are logged. In milliseconds. */
const LONG_MS = 10_000
/** The same reason is logged again only so much later: a window of a minute is waited for in every minute. */
const AGAIN_MS = 10 * 60_000

interface InfoLog {
  info(facts: object, text: string): void
}

/**
 * Logs once, with the reason, that calls wait: a limit that is believed to be lower than it is shows in nothing else
 * than in calls that are not made.
 */
export class WaitLog {
  readonly #log: InfoLog
  #since: number | null = null
  #isLogged = false
  /** When each of the limiter's states was logged last. */
  readonly #loggedAt = new Map<string, number>()

  constructor(log: InfoLog) {
    this.#log = log
  }

  /** To be called every second or so. @param now in milliseconds, never going back */
  look(rate: Pick<RateState, 'state' | 'waiting' | 'limit' | 'windowMs'>, now: number): void {
    if (rate.waiting === null) {
      if (this.#isLogged && this.#since !== null)
        this.#log.info({ ms: Math.round(now - this.#since) }, 'calls go on')
      this.#since = null
      this.#isLogged = false
      return
    }
    this.#since ??= now
    if (this.#isLogged || now - this.#since <= LONG_MS) return
    if (now - (this.#loggedAt.get(rate.state) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return
    this.#isLogged = true
    this.#loggedAt.set(rate.state, now)
    const { state, waiting: reason, limit, windowMs } = rate
    this.#log.info({ reason, state, limit, windowMs }, 'calls wait for longer than ten seconds')
  }
}
