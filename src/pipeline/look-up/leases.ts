import * as store from '../../store/leases.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'

/** Extended when they are so old, and looked at as often. In milliseconds. */
const EXTEND_MS = LEASE_MS / 3
/** No call may be under way under a lease that is so old: somebody else may hold it 2 s later. */
const TOO_OLD_MS = LEASE_MS - 2_000

interface Held {
  count: number
  /** When it was leased or extended, at the latest. */
  since: number
}

/**
 * The leases that one tick holds. They are extended while their calls are under way; when that fails for too long,
 * somebody else may already hold them, so the calls are aborted while the leases are certainly still ours.
 */
export class Leases {
  readonly lost: AbortSignal
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #controller = new AbortController()
  readonly #held = new Map<string, Held>()
  readonly #timer: NodeJS.Timeout
  #extending = false

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.lost = this.#controller.signal
    this.#timer = setInterval(() => void this.#extend(), EXTEND_MS)
  }

  /** @param since a moment before they were leased, by `performance.now()` */
  hold(token: string, count: number, since: number): void {
    if (count > 0) this.#held.set(token, { count, since })
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
    const oldest = Math.min(...[...this.#held.values()].map(({ since }) => since))
    if (now - oldest > TOO_OLD_MS) {
      this.#deps.log.warn(
        { lateMs: Math.round(now - oldest) },
        'leases could not be extended in time: their calls are aborted',
      )
      this.#controller.abort(new Error('the leases could not be extended in time'))
      return
    }
    // Most are settled before they need it: to extend them too would write each lookup once more.
    const old = [...this.#held].filter(([, { since }]) => now - since > EXTEND_MS / 2)
    if (old.length === 0 || this.#extending) return
    this.#extending = true
    try {
      await store.extend(
        this.#deps.db,
        old.map(([token]) => token),
        LEASE_MS,
      )
      for (const [, held] of old) held.since = now
    } catch (error) {
      this.#deps.log.warn({ reason: (error as Error).message }, 'leases not extended, will try again')
    } finally {
      this.#extending = false
    }
  }
}
