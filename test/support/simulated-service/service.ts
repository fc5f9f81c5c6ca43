import { createCounter } from './counters.ts'
import type { Counter, CounterKind, Verdict } from './counters.ts'

/** A service as seen from outside: how it counts, and which headers it sends. */
export interface ServiceSettings {
  readonly counter: CounterKind
  readonly limit: number
  readonly windowMs: number
  /** The form of Reset. */
  readonly reset:
    | 'up'
    | 'down'
    | 'round'
    | 'ms'
    | 'us'
    | 'ns'
    | 'iso'
    | 'delay-up'
    | 'delay-down'
    | 'delay-ms'
    | 'year 2100'
    | 'none'
  /** After more than `above` 429s within ten seconds all calls get 403 for `forMs`. */
  readonly ban?: { readonly above: number; readonly forMs: number; readonly retryAfter: boolean }
  /** In this time, in milliseconds since the start, it refuses all calls and says nothing else, whatever was called. */
  readonly refusesAll?: readonly [from: number, to: number]
  /** It has no limit, and states this one with nothing left. */
  readonly unlimitedAs?: '0' | '-1'
  /** Its clock minus the true one, in milliseconds. */
  readonly skewMs: number
  readonly date: boolean
  /** The share of answers that carry rate headers; the first always does, unless none do. */
  readonly headerShare: number
  /** The share of calls answered with 500, and whether they are counted. */
  readonly faultShare: number
  readonly faults: 'counted' | 'uncounted' | 'before the limiter'
  /** The share of calls answered with 404, and whether they are counted. */
  readonly missShare: number
  readonly misses: 'counted' | 'uncounted'
  readonly retryAfter: 'seconds' | 'date' | 'none'
  /** Then the limit changes: from the next window on if there are windows, or at once. */
  readonly change: { readonly afterMs: number; readonly limit: number; readonly isAtOnce?: boolean } | null
}

export interface Arrival {
  readonly status: number
  readonly headers: Record<string, string>
  readonly verdict: Verdict | null
}

export class SimulatedService {
  readonly settings: ServiceSettings
  readonly #counter: Counter
  readonly #random: () => number
  readonly #start: number
  #answers = 0
  #dated = { second: 0, date: '' }
  #rejectedAt: number[] = []
  #bannedUntil = Number.NEGATIVE_INFINITY

  constructor(settings: ServiceSettings, start: number, random: () => number) {
    this.settings = settings
    this.#counter = createCounter(settings.counter, settings.limit, settings.windowMs)
    this.#random = random
    this.#start = start
  }

  get #limit(): number {
    return this.settings.limit
  }

  /** The limit in force at a moment. */
  limitAt(now: number): number {
    const { change } = this.settings
    return change !== null && now >= this.#start + change.afterMs ? change.limit : this.#limit
  }

  /** Counts calls that were made before: one at a moment, and the others at a later one. */
  useBefore(calls: number, from: number, to: number): void {
    for (let call = 0; call < calls; call++) this.#counter.arrive(call === 0 ? from : to)
  }

  arrive(now: number): Arrival {
    const { settings } = this
    if (settings.change !== null && now >= this.#start + settings.change.afterMs) {
      this.#counter.setLimit(settings.change.limit, settings.change.isAtOnce)
    }
    const isFault = this.#answers > 0 && this.#random() < settings.faultShare
    if (isFault && settings.faults === 'before the limiter') {
      return { status: 503, headers: this.#dateHeader(now), verdict: null }
    }
    if (now < this.#bannedUntil) return this.#banned(now)
    const [from, to] = settings.refusesAll ?? [0, 0]
    if (now >= this.#start + from && now < this.#start + to)
      return { status: 429, headers: {}, verdict: null }
    const verdict = this.#verdict(now)
    if (!verdict.accepted) this.#countRefusal(now)
    const isMiss = !isFault && this.#random() < settings.missShare
    const status = verdict.accepted ? (isFault ? 500 : isMiss ? 404 : 200) : 429
    const isUncounted =
      (isFault && settings.faults === 'uncounted') || (isMiss && settings.misses === 'uncounted')
    if (isUncounted && verdict.accepted) this.#counter.uncount(now)
    const isFirst = this.#answers++ === 0 && settings.headerShare > 0
    const carries = isFirst || this.#random() < settings.headerShare
    return {
      status,
      verdict,
      headers: {
        ...this.#dateHeader(now),
        ...(carries ? this.#rateHeaders(verdict, now) : {}),
        ...(verdict.accepted ? {} : this.#retryAfter(verdict, now)),
      },
    }
  }

  #countRefusal(now: number): void {
    const { ban } = this.settings
    this.#rejectedAt = [...this.#rejectedAt.filter((at) => at > now - 10_000), now]
    if (ban !== undefined && this.#rejectedAt.length > ban.above) this.#bannedUntil = now + ban.forMs
  }

  #banned(now: number): Arrival {
    const wait = String(Math.ceil((this.#bannedUntil - now) / 1000))
    const said = this.settings.ban?.retryAfter === true ? { 'retry-after': wait } : {}
    return { status: 403, headers: { ...this.#dateHeader(now), ...said }, verdict: null }
  }

  #verdict(now: number): Verdict {
    const verdict = this.#counter.arrive(now)
    return this.settings.unlimitedAs === undefined ? verdict : { ...verdict, accepted: true }
  }

  #dateHeader(now: number): Record<string, string> {
    if (!this.settings.date) return {}
    const second = Math.floor((now + this.settings.skewMs) / 1000)
    // Answers of one second carry the same, and its formatting takes as long as all else that the service does.
    if (second !== this.#dated.second) this.#dated = { second, date: new Date(second * 1000).toUTCString() }
    return { date: this.#dated.date }
  }

  #rateHeaders({ limit, remaining, resetAt }: Verdict, now: number): Record<string, string> {
    const reset = formatReset(this.settings.reset, resetAt + this.settings.skewMs, now + this.settings.skewMs)
    const { unlimitedAs } = this.settings
    return {
      'x-ratelimit-limit': unlimitedAs ?? String(limit),
      'x-ratelimit-remaining': unlimitedAs ?? String(remaining),
      ...(reset === null ? {} : { 'x-ratelimit-reset': reset }),
    }
  }

  #retryAfter({ retryAt }: Verdict, now: number): Record<string, string> {
    switch (this.settings.retryAfter) {
      case 'none':
        return {}
      case 'seconds':
        return { 'retry-after': String(Math.max(0, Math.ceil((retryAt - now) / 1000))) }
      case 'date':
        return {
          'retry-after': new Date(Math.ceil((retryAt + this.settings.skewMs) / 1000) * 1000).toUTCString(),
        }
    }
  }
}

function formatReset(form: ServiceSettings['reset'], at: number, now: number): string | null {
  switch (form) {
    case 'up':
      return String(Math.ceil(at / 1000))
    case 'down':
      return String(Math.floor(at / 1000))
    case 'round':
      return String(Math.round(at / 1000))
    case 'ms':
      return String(Math.round(at))
    case 'us':
      return String(Math.round(at * 1000))
    case 'ns':
      return `${Math.round(at * 1000)}000`
    case 'delay-ms':
      return String(Math.max(0, Math.round(at - now)))
    case 'year 2100':
      return '4102444800'
    case 'iso':
      return new Date(at).toISOString()
    case 'delay-up':
      return String(Math.max(0, Math.ceil((at - now) / 1000)))
    case 'delay-down':
      return String(Math.max(0, Math.floor((at - now) / 1000)))
    case 'none':
      return null
  }
}
