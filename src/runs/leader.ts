import { randomUUID } from 'node:crypto'
import type { RateStatus } from '../domain/rate-status.ts'
import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'
import { LEADER_LEASE_MS, type LeaderOptions, Leadership } from './leadership.ts'

/** What the calls of a process need of its elector. */
export type Elector = Pick<LeaderElector, 'scope' | 'acquire' | 'readStatus'>

/**
 * Elects the leader: the process that holds the lease of the scope. The lease is renewed every few seconds; a process
 * that dies is replaced within its duration, and one that resigns is replaced at once.
 */
export class LeaderElector {
  readonly #options: LeaderOptions
  /** Token of an attempt whose response was lost; null if the result of the last one is known. */
  #attempt: string | null = null

  constructor(options: LeaderOptions) {
    this.#options = options
  }

  /** The current service and key: the key may change at run time. */
  get scope(): string {
    return this.#options.scope()
  }

  /** @returns null while another process is the leader */
  async acquire(): Promise<Leadership | null> {
    const { db, owner, service } = this.#options
    const { scope } = this
    // An attempt whose response was lost may have won: reuse its token. Releasing it in the background would be one
    // more loop waiting for Postgres during an outage.
    const token = this.#attempt ?? randomUUID()
    this.#attempt = token
    const acquiredAt = performance.now()
    const isAcquired = await rateLimits.acquireLease(db, scope, token, owner, LEADER_LEASE_MS)
    this.#attempt = null
    return isAcquired ? Leadership.begin(this.#options, { scope, service, token }, acquiredAt) : null
  }

  /** The leader's last report; null if there is no leader, or it has not reported yet. */
  readStatus(): Promise<RateStatus | null> {
    return readLeaderStatus(this.#options.db, this.scope, (this.#options.now ?? Date.now)())
  }

  /** The circuit that the leader has stored as open; null: none. */
  findOpenCircuit(): Promise<rateLimits.KnownCircuit | null> {
    return rateLimits.findCircuit(this.#options.db, this.scope)
  }
}

/** The leader's last report; null if there is no leader, or it has not reported yet. */
export async function readLeaderStatus(db: Database, scope: string, now: number): Promise<RateStatus | null> {
  const stored = (await rateLimits.readRateStatuses(db)).get(scope)
  if (!stored?.isLive) return null
  const { reportedAt: _, isLive: __, ...status } = stored
  const { nextWindowAt } = status
  const nextWindowInMs = nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now
  return { ...status, nextWindowInMs, isRemote: true }
}
