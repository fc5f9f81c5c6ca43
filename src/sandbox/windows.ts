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

/** The window that contains `now`: the open one, or a new one. */
function windowAt(window: RateWindow | undefined, now: number, rules: WindowRules): RateWindow {
  if (window !== undefined && now < window.endsAt) return window
  const serverNow = now + rules.clockSkewMs
  const startsAt =
    rules.windows === 'first'
      ? now
      : now - (serverNow - Math.floor(serverNow / rules.windowMs) * rules.windowMs)
  return {
    startsAt,
    endsAt: startsAt + rules.windowMs,
    used: 0,
    refused: 0,
    bannedUntil: window?.bannedUntil ?? 0,
  }
}

/**
 * Counts one call on arrival: accepted while the window has room, rejected afterwards. A rejected call does not
 * reduce the next window, but more than `banAfter` of them ban the key.
 */
export function consume(window: RateWindow | undefined, now: number, rules: WindowRules): WindowDecision {
  const { limit } = rules
  if (window !== undefined && now < window.bannedUntil) {
    const banned = { ...window, refused: window.refused + 1 }
    return { accepted: false, window: banned, limit, remaining: 0, resetsAt: window.bannedUntil }
  }
  const open = windowAt(window, now, rules)
  if (open.used < limit) {
    const used = open.used + 1
    return {
      accepted: true,
      window: { ...open, used },
      limit,
      remaining: limit - used,
      resetsAt: open.endsAt,
    }
  }
  const refused = open.refused + 1
  const bannedUntil =
    rules.banAfter !== null && refused > rules.banAfter ? now + rules.banMs : open.bannedUntil
  const resetsAt = Math.max(open.endsAt, bannedUntil)
  return { accepted: false, window: { ...open, refused, bannedUntil }, limit, remaining: 0, resetsAt }
}

/** Reads a window for the headers, without counting a call. */
export function peek(window: RateWindow | undefined, now: number, rules: WindowRules): WindowDecision {
  const open = windowAt(window, now, rules)
  const remaining = Math.max(0, rules.limit - open.used)
  return { accepted: true, window: open, limit: rules.limit, remaining, resetsAt: open.endsAt }
}

const rounded = {
  up: (milliseconds: number) => String(Math.ceil(milliseconds / 1000)),
  down: (milliseconds: number) => String(Math.floor(milliseconds / 1000)),
  ms: (milliseconds: number) => (milliseconds / 1000).toFixed(3),
}

/** X-RateLimit-Limit, -Remaining and -Reset (service-interface.md, Limits), on the sandbox's own clock. */
export function limitHeaders(
  verdict: WindowDecision,
  options: Pick<SandboxOptions, 'clockSkewMs' | 'resetRounding'>,
): Record<string, string> {
  return {
    'X-RateLimit-Limit': String(verdict.limit),
    'X-RateLimit-Remaining': String(verdict.remaining),
    'X-RateLimit-Reset': rounded[options.resetRounding](verdict.resetsAt + options.clockSkewMs),
  }
}

/** Retry-After of a rejected call. Never too early, so seconds and dates are rounded up. */
export function retryAfterHeader(
  verdict: WindowDecision,
  now: number,
  options: Pick<SandboxOptions, 'clockSkewMs' | 'retryAfter'>,
): Record<string, string> {
  if (options.retryAfter === 'none') return {}
  if (options.retryAfter === 'seconds') {
    return { 'Retry-After': String(Math.ceil((verdict.resetsAt - now) / 1000)) }
  }
  const serverSecond = Math.ceil((verdict.resetsAt + options.clockSkewMs) / 1000)
  return { 'Retry-After': new Date(serverSecond * 1000).toUTCString() }
}
