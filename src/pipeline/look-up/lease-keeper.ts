import * as store from '../../store/lookup-leases.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'

/** Extended when they are so old, and looked at as often. In milliseconds. */
const EXTEND_INTERVAL_MS = LEASE_MS / 3
/** No call may be under way under a lease that is so old: somebody else may hold it 2 s later. */
const MAX_LEASE_AGE_MS = LEASE_MS - 2_000

interface TrackedLease {
  unfinished: number
  /** When all that is leased under the token was leased or extended, at the latest. */
  extendedAt: number
  readonly lostController: AbortController
}

/**
 * The leases that one tick holds. They are extended while their calls are under way; what could not be extended for too
 * long may already be held by somebody else, so its calls are aborted while the leases are certainly still ours.
 */
export class LeaseKeeper {
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #tracked = new Map<string, TrackedLease>()
  readonly #timer: NodeJS.Timeout
  #isExtending = false

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.#timer = setInterval(() => void this.#extend(), EXTEND_INTERVAL_MS)
  }

  /** @param extendedAt a moment before they were leased, by `performance.now()` */
  track(token: string, unfinished: number, extendedAt: number): void {
    if (unfinished > 0)
      this.#tracked.set(token, { unfinished, extendedAt, lostController: new AbortController() })
  }

  /** Aborted when the leases under this token could not be extended in time. */
  lostSignal(token: string): AbortSignal {
    return (
      this.#tracked.get(token)?.lostController.signal ??
      AbortSignal.abort(new Error('nothing is leased under the token'))
    )
  }

  /** One lookup under this token is settled. */
  untrack(token: string): void {
    const held = this.#tracked.get(token)
    if (held !== undefined && --held.unfinished <= 0) this.#tracked.delete(token)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #extend(): Promise<void> {
    const now = performance.now()
    this.#abortExpiring(now)
    // Most are settled before they need it: to extend them too would write each lookup once more.
    const old = [...this.#tracked].filter(
      ([, { extendedAt, lostController }]) =>
        now - extendedAt > EXTEND_INTERVAL_MS / 2 && !lostController.signal.aborted,
    )
    if (old.length === 0 || this.#isExtending) return
    this.#isExtending = true
    try {
      const tokens = old.map(([token]) => token)
      const extended = await store.extendLookupLeases(this.#deps.db, tokens, LEASE_MS)
      for (const [token, held] of old) {
        const of = extended.get(token)
        // What was left out is as old as before: extended again and again, and in the end aborted. Where nothing is
        // leased any more, its answer is stored by now, or the lease is lost.
        if (of !== undefined && of.extended === of.leased) held.extendedAt = now
      }
    } catch (error) {
      this.#deps.log.warn({ reason: (error as Error).message }, 'leases not extended, will try again')
    } finally {
      this.#isExtending = false
    }
  }

  #abortExpiring(now: number): void {
    const late = [...this.#tracked.values()].filter(
      ({ extendedAt, lostController }) =>
        now - extendedAt > MAX_LEASE_AGE_MS && !lostController.signal.aborted,
    )
    if (late.length === 0) return
    this.#deps.log.warn(
      {
        tokens: late.length,
        lateMs: Math.round(now - Math.min(...late.map(({ extendedAt }) => extendedAt))),
      },
      'leases could not be extended in time: their calls are aborted',
    )
    for (const { lostController } of late)
      lostController.abort(new Error('the leases could not be extended in time'))
  }
}
