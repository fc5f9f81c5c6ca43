import * as store from '../../store/leases.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'

/**
 * The leases that one tick holds. They are extended while their calls are under way; when that fails for too long,
 * somebody else may already hold them, so the calls are aborted while the leases are certainly still ours.
 */
export class Leases {
  readonly lost: AbortSignal
  readonly #deps: Pick<CallDeps, 'db' | 'log'>
  readonly #controller = new AbortController()
  readonly #held = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #extendedAt = performance.now()
  #extending = false

  constructor(deps: Pick<CallDeps, 'db' | 'log'>) {
    this.#deps = deps
    this.lost = this.#controller.signal
    this.#timer = setInterval(() => void this.#extend(), LEASE_MS / 3)
  }

  hold(token: string, count: number): void {
    if (this.#held.size === 0) this.#extendedAt = performance.now()
    if (count > 0) this.#held.set(token, count)
  }

  /** One lookup under this token is settled. */
  drop(token: string): void {
    const left = (this.#held.get(token) ?? 0) - 1
    if (left > 0) this.#held.set(token, left)
    else this.#held.delete(token)
  }

  end(): void {
    clearInterval(this.#timer)
  }

  async #extend(): Promise<void> {
    if (this.#held.size === 0 || this.#extending) return
    const late = performance.now() - this.#extendedAt
    if (late > LEASE_MS - 2_000) {
      this.#deps.log.warn(
        { lateMs: Math.round(late) },
        'leases could not be extended in time: their calls are aborted',
      )
      this.#controller.abort(new Error('the leases could not be extended in time'))
      return
    }
    this.#extending = true
    const began = performance.now()
    try {
      await store.extend(this.#deps.db, [...this.#held.keys()], LEASE_MS)
      this.#extendedAt = began
    } catch (error) {
      this.#deps.log.warn({ reason: (error as Error).message }, 'leases not extended, will try again')
    } finally {
      this.#extending = false
    }
  }
}
