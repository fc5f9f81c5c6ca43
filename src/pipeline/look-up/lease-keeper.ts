import * as store from '../../store/lookup-leases.ts'
import { describeError } from '../../util/error-text.ts'
import { retryLogLevel } from '../../store/transaction.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'

/** Age at which a lease is extended, and the interval of the check. In milliseconds. */
const EXTEND_INTERVAL_MS = LEASE_MS / 3
/** No call may run under a lease older than this: another process may take it 2 s later. */
const MAX_LEASE_AGE_MS = LEASE_MS - 2_000

interface TrackedLease {
  unfinished: number
  /** The latest moment at which everything under the token was leased or extended. */
  extendedAt: number
  readonly lostController: AbortController
}

/**
 * The leases that one tick holds, extended while their calls are in flight. A lease that could not be extended in
 * time may pass to another process, so its calls are aborted while it is certainly still ours.
 */
export class LeaseKeeper {
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #tracked = new Map<string, TrackedLease>()
  readonly #timer: NodeJS.Timeout
  #isExtending = false
  /** Why leases were not extended last; null: they were. */
  #failure: unknown = null

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.#timer = setInterval(() => void this.#extend(), EXTEND_INTERVAL_MS)
  }

  /** @param extendedAt a moment before they were leased, by `performance.now()` */
  track(token: string, unfinished: number, extendedAt: number): void {
    if (unfinished > 0)
      this.#tracked.set(token, { unfinished, extendedAt, lostController: new AbortController() })
  }

  /** Aborts when the leases under this token could not be extended in time. */
  lostSignal(token: string): AbortSignal {
    return (
      this.#tracked.get(token)?.lostController.signal ??
      AbortSignal.abort(new Error('nothing is leased under this token'))
    )
  }

  /** One lookup under this token is finished. */
  untrack(token: string): void {
    const lease = this.#tracked.get(token)
    if (lease !== undefined && --lease.unfinished <= 0) this.#tracked.delete(token)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #extend(): Promise<void> {
    const now = performance.now()
    this.#abortExpiring(now)
    // Most lookups finish before they need an extension, which would write each of them once more.
    const aging = [...this.#tracked].filter(
      ([, { extendedAt, lostController }]) =>
        now - extendedAt > EXTEND_INTERVAL_MS / 2 && !lostController.signal.aborted,
    )
    if (aging.length === 0 || this.#isExtending) return
    this.#isExtending = true
    try {
      const tokens = aging.map(([token]) => token)
      const extended = await store.extendLookupLeases(this.#deps.db, tokens, LEASE_MS)
      for (const [token, lease] of aging) if (extended.has(token)) lease.extendedAt = now
      this.#failure = null
    } catch (error) {
      this.#failure = error
      this.#deps.log[retryLogLevel(error)](
        { event: 'leases_not_extended', reason: describeError(error) },
        'leases not extended; retrying',
      )
    } finally {
      this.#isExtending = false
    }
  }

  #abortExpiring(now: number): void {
    const expiring = [...this.#tracked.values()].filter(
      ({ extendedAt, lostController }) =>
        now - extendedAt > MAX_LEASE_AGE_MS && !lostController.signal.aborted,
    )
    if (expiring.length === 0) return
    this.#deps.log[retryLogLevel(this.#failure)](
      {
        event: 'leases_not_extended',
        tokens: expiring.length,
        lateMs: Math.round(now - Math.min(...expiring.map(({ extendedAt }) => extendedAt))),
      },
      'leases could not be extended in time; aborting their calls',
    )
    for (const { lostController } of expiring)
      lostController.abort(new Error('the leases could not be extended in time'))
  }
}
