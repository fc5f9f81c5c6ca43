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

export type WindowRules = Pick<
  SandboxOptions,
  'windowMs' | 'windows' | 'clockSkewMs' | 'banAfter' | 'banMs'
> & {
  readonly limit: number
}

/** The window that contains `now`: the open one, that of a ban, or a new one. */
function windowAt(window: RateWindow | undefined, now: number, rules: WindowRules): RateWindow {
  if (window !== undefined && now < Math.max(window.endsAt, window.bannedUntil)) return window
  const serverNow = now + rules.clockSkewMs
  const intoWindow =
    rules.windows === 'first' ? 0 : serverNow - Math.floor(serverNow / rules.windowMs) * rules.windowMs
  const startsAt = now - intoWindow
  return { startsAt, endsAt: startsAt + rules.windowMs, used: 0, refused: 0, bannedUntil: 0 }
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

/** Reads a window for the headers, without counting a call. */
export const peek = (window: RateWindow | undefined, now: number, rules: WindowRules): WindowDecision =>
  decide(true, windowAt(window, now, rules), rules.limit)

const ROUNDED = {
  up: (milliseconds: number) => String(Math.ceil(milliseconds / 1000)),
  down: (milliseconds: number) => String(Math.floor(milliseconds / 1000)),
  ms: (milliseconds: number) => (milliseconds / 1000).toFixed(3),
}

/** X-RateLimit-Limit, -Remaining and -Reset, on the sandbox's own clock. */
export function limitHeaders(
  verdict: WindowDecision,
  options: Pick<SandboxOptions, 'clockSkewMs' | 'resetRounding'>,
): Record<string, string> {
  return {
    'X-RateLimit-Limit': String(verdict.limit),
    'X-RateLimit-Remaining': String(verdict.remaining),
    'X-RateLimit-Reset': ROUNDED[options.resetRounding](verdict.resetsAt + options.clockSkewMs),
  }
}

/** Retry-After of a rejected call. Never too early, so seconds and dates are rounded up. */
export function retryAfterHeader(
  { resetsAt }: WindowDecision,
  now: number,
  { retryAfter, clockSkewMs }: Pick<SandboxOptions, 'clockSkewMs' | 'retryAfter'>,
): Record<string, string> {
  if (retryAfter === 'none') return {}
  if (retryAfter === 'seconds') return { 'Retry-After': String(Math.ceil((resetsAt - now) / 1000)) }
  const serverSecond = Math.ceil((resetsAt + clockSkewMs) / 1000)
  return { 'Retry-After': new Date(serverSecond * 1000).toUTCString() }
}
