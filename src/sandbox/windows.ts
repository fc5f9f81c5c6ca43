import type { SandboxOptions } from './options.ts'

/** One fixed window of one key. Times are in milliseconds of true time. */
export interface RateWindow {
  readonly startsAt: number
  readonly endsAt: number
  readonly used: number
  readonly refused: number
  readonly bannedUntil: number
}

/** The decision on one call, and the window after it. */
export interface WindowDecision {
  readonly accepted: boolean
  readonly window: RateWindow
  readonly limit: number
  readonly remaining: number
  /** When calls are accepted again: the end of the window, or of the ban. */
  readonly resetsAt: number
}

export type WindowRules = Pick<SandboxOptions, 'windowMs' | 'banAfter' | 'banMs'> & {
  readonly limit: number
}

/** The window that contains `now`: the open one, that of a ban, or one that starts with this call. */
function windowAt(window: RateWindow | undefined, now: number, rules: WindowRules): RateWindow {
  if (window !== undefined && now < Math.max(window.endsAt, window.bannedUntil)) return window
  return { startsAt: now, endsAt: now + rules.windowMs, used: 0, refused: 0, bannedUntil: 0 }
}

function decide(accepted: boolean, window: RateWindow, limit: number): WindowDecision {
  const { used, endsAt, bannedUntil } = window
  const remaining = accepted ? Math.max(0, limit - used) : 0
  return { accepted, window, limit, remaining, resetsAt: Math.max(endsAt, bannedUntil) }
}

/**
 * Counts one call on arrival: accepted while the window has room, rejected afterwards. A rejected call does not
 * reduce the next window, but more than `banAfter` of them ban the key.
 */
export function consume(window: RateWindow | undefined, now: number, rules: WindowRules): WindowDecision {
  const { limit, banAfter, banMs } = rules
  const open = windowAt(window, now, rules)
  const isBanned = now < open.bannedUntil
  if (!isBanned && open.used < limit) return decide(true, { ...open, used: open.used + 1 }, limit)
  const refused = open.refused + 1
  const startsBan = !isBanned && banAfter !== null && refused > banAfter
  return decide(false, { ...open, refused, bannedUntil: startsBan ? now + banMs : open.bannedUntil }, limit)
}

/** X-RateLimit-Limit, -Remaining and -Reset, in unix seconds. */
export const limitHeaders = ({ limit, remaining, resetsAt }: WindowDecision): Record<string, string> => ({
  'X-RateLimit-Limit': String(limit),
  'X-RateLimit-Remaining': String(remaining),
  'X-RateLimit-Reset': String(Math.ceil(resetsAt / 1000)),
})

/** Retry-After of a rejected call in seconds, rounded up: never too early. */
export const retryAfterHeader = ({ resetsAt }: WindowDecision, now: number): Record<string, string> => ({
  'Retry-After': String(Math.ceil((resetsAt - now) / 1000)),
})
