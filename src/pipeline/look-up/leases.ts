import * as store from '../../store/leases.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'

/** Extended when they are so old, and looked at as often. In milliseconds. */
const EXTEND_MS = LEASE_MS / 3
/** No call may be under way under a lease that is so old: somebody else may hold it 2 s later. */
const TOO_OLD_MS = LEASE_MS - 2_000

interface Held {
  count: number
  /** When all that is leased under the token was leased or extended, at the latest. */
  since: number
  readonly lost: AbortController
}

/**
 * The leases that one tick holds. They are extended while their calls are under way; what could not be extended for too
 * long may already be held by somebody else, so its calls are aborted while the leases are certainly still ours.
 */
export class Leases {
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #held = new Map<string, Held>()
  readonly #timer: NodeJS.Timeout
  #extending = false

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.#timer = setInterval(() => void this.#extend(), EXTEND_MS)
  }

  /** @param since a moment before they were leased, by `performance.now()` */
  hold(token: string, count: number, since: number): void {
    if (count > 0) this.#held.set(token, { count, since, lost: new AbortController() })
  }

  /** Aborted when the leases under this token could not be extended in time. */
  lostOf(token: string): AbortSignal {
    return (
      this.#held.get(token)?.lost.signal ?? AbortSignal.abort(new Error('nothing is leased under the token'))
    )
  }

  /** One lookup under this token is settled. */
  drop(token: string): void {
    const held = this.#held.get(token)
    if (held !== undefined && --held.count <= 0) this.#held.delete(token)
  }

  end(): void {
    clearInterval(this.#timer)
  }

  async #extend(): Promise<void> {
    const now = performance.now()
    this.#abortOld(now)
    // Most are settled before they need it: to extend them too would write each lookup once more.
    const old = [...this.#held].filter(
      ([, { since, lost }]) => now - since > EXTEND_MS / 2 && !lost.signal.aborted,
    )
    if (old.length === 0 || this.#extending) return
    this.#extending = true
    try {
      const tokens = old.map(([token]) => token)
      const extended = await store.extend(this.#deps.db, tokens, LEASE_MS)
      for (const [token, held] of old) {
        const of = extended.get(token)
        // What was left out is as old as before: extended again and again, and in the end aborted. Where nothing is
        // leased any more, its answer is stored by now, or the lease is lost.
        if (of !== undefined && of.extended === of.leased) held.since = now
      }
    } catch (error) {
      this.#deps.log.warn({ reason: (error as Error).message }, 'leases not extended, will try again')
    } finally {
      this.#extending = false
    }
  }

  #abortOld(now: number): void {
    const late = [...this.#held.values()].filter(
      ({ since, lost }) => now - since > TOO_OLD_MS && !lost.signal.aborted,
    )
    if (late.length === 0) return
    this.#deps.log.warn(
      { tokens: late.length, lateMs: Math.round(now - Math.min(...late.map(({ since }) => since))) },
      'leases could not be extended in time: their calls are aborted',
    )
    for (const { lost } of late) lost.abort(new Error('the leases could not be extended in time'))
  }
}
