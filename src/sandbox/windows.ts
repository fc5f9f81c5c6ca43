import type { SandboxOptions } from './options.ts'

/** One fixed window of one key, as the statistics show it. Times are in Unix milliseconds. */
export interface RateWindow {
  readonly starts_at: number
  /** The end of the window, or of a ban that began in it. */
  ends_at: number
  limit: number
  accepted: number
  refused: number
  is_banned: boolean
}

type WindowRules = Pick<SandboxOptions, 'windowMs' | 'banAfter' | 'banMs'> & { readonly limit: number }

/** The decision on one call. */
export interface WindowDecision {
  readonly isAccepted: boolean
  readonly isBanned: boolean
  /** X-RateLimit-Limit, -Remaining and -Reset, and Retry-After of a 429: seconds, rounded up, never too early. */
  readonly headers: Readonly<Record<string, string>>
}

const MAX_WINDOWS = 10_000

/** The rate limit: fixed windows of each key, each of which begins with a call. */
export class RateLimit {
  /** The latest windows of all keys, oldest first. */
  readonly windows: RateWindow[] = []
  readonly #open = new Map<string, RateWindow>()

  /**
   * Counts one call on arrival: accepted while the window has room, refused afterwards. A refused call does not reduce
   * the next window, but more than `banAfter` of them ban the key.
   */
  count(key: string, now: number, { limit, windowMs, banAfter, banMs }: WindowRules): WindowDecision {
    let window = this.#open.get(key)
    if (window === undefined || now >= window.ends_at) {
      window = {
        starts_at: now,
        ends_at: now + windowMs,
        limit,
        accepted: 0,
        refused: 0,
        is_banned: false,
      }
      this.#open.set(key, window)
      this.windows.push(window)
      if (this.windows.length > MAX_WINDOWS) this.windows.shift()
    }
    window.limit = limit
    const isAccepted = !window.is_banned && window.accepted < limit
    window[isAccepted ? 'accepted' : 'refused'] += 1
    if (banAfter !== null && window.refused > banAfter && !window.is_banned) {
      window.is_banned = true
      window.ends_at = Math.max(window.ends_at, now + banMs)
    }
    const headers = {
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(isAccepted ? limit - window.accepted : 0),
      'X-RateLimit-Reset': String(Math.ceil(window.ends_at / 1000)),
      ...(!isAccepted &&
        !window.is_banned && { 'Retry-After': String(Math.ceil((window.ends_at - now) / 1000)) }),
    }
    return { isAccepted, isBanned: window.is_banned, headers }
  }
}
