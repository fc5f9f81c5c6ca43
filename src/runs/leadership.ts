import * as rateLimits from '../store/rate-limits.ts'
import { describeError } from '../util/error-text.ts'
import {
  CHANGE_LIMIT,
  formatLimit,
  formatOverstated,
  type ExhaustedFor,
  type LimitUsage,
  type RateStatus,
} from '../domain/rate-status.ts'
import type { DocumentedLimit } from '../domain/service/documented-limit.ts'
import type { Breaker } from '../service/breaker.ts'
import { Limiter, type LimiterOptions } from '../service/rate-limit/limiter.ts'
import { retryLogLevel } from '../store/transaction.ts'
import type { Database } from '../store/open.ts'
import { readTry } from '../store/services.ts'
import type { Log } from '../util/log.ts'
import { randomUUID } from 'node:crypto'

export interface LeaderOptions {
  readonly db: Database
  /** Scope of the limit: the service, and its account or the identifier of its key. */
  readonly scope: string
  /** The number of the service. */
  readonly service: number
  /** Identifies this process; unique for each start. */
  readonly owner: string
  readonly log: Log
  readonly reserve: number
  /** Limits that the service documents. Default: none. */
  readonly documented?: readonly DocumentedLimit[]
  /** Restored from the previous leader's circuit; its own is stored for the next leader. */
  readonly breaker: Pick<Breaker, 'snapshot' | 'restore' | 'probe'>
  readonly now?: () => number
}

/** Lease duration without a renewal; followers poll every second. */
const LEADER_LEASE_MS = 6_000

/** Interval of renewals and status reports. */
const RENEW_INTERVAL_MS = 1_500

/** A lease that could not be renewed is given up this long before it expires, so that two processes never call at once. */
const SAFETY_MARGIN_MS = 2_000

interface LeaderLease extends rateLimits.ServiceScope {
  readonly token: string
}

/** What the previous leader has stored. */
interface StoredRate extends Pick<LimiterOptions, 'exhaustedFor' | 'previous'> {
  readonly usage: LimitUsage | null
  readonly circuit: rateLimits.KnownCircuit | null
  /** When a person wanted the service to be tried last. */
  readonly triedAt: number | null
}

/**
 * The right to call the service, held by one process at a time, because the limit belongs to the key. Its limiter begins with what the
 * previous leader has stored, and stores what the next one needs. Its lease is renewed every `RENEW_INTERVAL_MS`, beside the calls, until
 * it ends or is lost.
 */
export class Leadership {
  readonly limiter: Limiter
  readonly #options: LeaderOptions
  readonly #lease: LeaderLease
  readonly #lost = new AbortController()
  readonly #timer: NodeJS.Timeout
  #renewedAt: number
  #isRenewing = false
  /** Why the lease was not renewed last; null: it was, or nothing has come back yet. */
  #failure: unknown = null
  #hasStoredCircuit: boolean
  #isLearntLogged = false
  /** When a person wanted the service to be tried last, as of the last look. */
  #triedAt: number | null

  static async begin(options: LeaderOptions, lease: LeaderLease, acquiredAt: number): Promise<Leadership> {
    const { db, breaker, documented = [] } = options
    const { scope } = lease
    const { usage, ...left } = await rateLimits.readLeftRate(db, scope)
    const circuit = await rateLimits.findCircuit(db, scope)
    const triedAt = await readTry(db, options.service)
    await rateLimits.deleteReplacedCircuits(db, lease)
    if (circuit !== null) breaker.restore(circuit)
    return new Leadership(options, lease, acquiredAt, {
      ...left,
      usage: documented.length === 0 ? null : usage,
      circuit,
      triedAt,
    })
  }

  private constructor(
    options: LeaderOptions,
    lease: LeaderLease,
    acquiredAt: number,
    { usage, circuit, triedAt, ...stored }: StoredRate,
  ) {
    this.#options = options
    this.#lease = lease
    this.#renewedAt = acquiredAt
    this.#triedAt = triedAt
    this.#hasStoredCircuit = circuit !== null
    this.limiter = new Limiter({
      reserve: options.reserve,
      ...stored,
      documented: {
        limits: options.documented ?? [],
        usage,
        persist: (latest) => this.#saveUsage(latest),
      },
      persistExhaustion: (latest) => this.#saveExhausted(latest),
    })
    // The leader that has learnt it has said it.
    const { overstated, learnt } = this.limiter.state()
    this.#isLearntLogged = overstated != null || learnt != null
    this.#timer = setInterval(() => void this.#renew(), RENEW_INTERVAL_MS)
    const { owner, log } = options
    log.debug({ event: 'leader_elected', scope: lease.scope, owner }, 'this process is the leader')
  }

  /** Service and key: runs of other scopes are not served. */
  get scope(): string {
    return this.#lease.scope
  }

  /** Aborts when the lease could not be renewed: another process may be calling by now. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Resigns, so that the next process need not wait for the lease to expire. */
  async end(): Promise<void> {
    const { db, log } = this.#options
    clearInterval(this.#timer)
    const [state, exhaustedFor, usage] = [
      this.limiter.state(),
      this.limiter.exhaustedFor(),
      this.limiter.usage(),
    ]
    this.#warnLearnt(state)
    await this.limiter.stop()
    // Without it the next leader takes the calls that were noted ahead for made.
    if (usage) await this.#saveUsage(usage).catch(() => {})
    await publishFinalStatus(this.#options, this.#lease, state, exhaustedFor)
    await this.#saveCircuit().catch(() => {})
    await rateLimits.releaseLease(db, this.scope, this.#lease.token).catch((error: unknown) => {
      log[retryLogLevel(error)](
        { event: 'leader_lease_not_renewed', reason: describeError(error) },
        'leader lease not released; it expires by itself',
      )
    })
  }

  async #renew(): Promise<void> {
    const { db, owner, log } = this.#options
    if (this.#isOver() || this.#isRenewing) return
    this.#isRenewing = true
    const startedAt = performance.now()
    try {
      const isRenewed = await rateLimits.acquireLease(
        db,
        this.scope,
        this.#lease.token,
        owner,
        LEADER_LEASE_MS,
      )
      this.#failure = null
      if (isRenewed) this.#renewedAt = startedAt
      else this.#lost.abort(new Error('another process is the leader now'))
      const state = this.limiter.state()
      this.#warnLearnt(state)
      if (state.limit === null || ['cooldown', 'banned'].includes(state.state)) await this.#savePause()
      await rateLimits.saveRateStatus(db, this.#lease, state)
      await this.#saveCircuit()
    } catch (error) {
      this.#failure = error
      log[retryLogLevel(error)](
        { event: 'leader_lease_not_renewed', reason: describeError(error) },
        'leader lease not renewed; retrying',
      )
    } finally {
      this.#isRenewing = false
    }
  }

  /** Whether the lease cannot be renewed in time; then it is lost. */
  #isOver(): boolean {
    if (performance.now() - this.#renewedAt <= LEADER_LEASE_MS - SAFETY_MARGIN_MS) return false
    // Once: the loops may take long to end. An outage of Postgres is said as a trouble.
    clearInterval(this.#timer)
    this.#options.log[retryLogLevel(this.#failure)](
      { event: 'leader_lease_lost', scope: this.scope },
      'lost the leader lease; stopping API calls',
    )
    this.#lost.abort(new Error('the leader lease could not be renewed in time'))
    return true
  }

  async #saveUsage(latest: LimitUsage): Promise<void> {
    if (!(await rateLimits.saveLimitUsage(this.#options.db, this.#lease, latest))) throw new Error(NOT_LEADER)
  }

  async #saveExhausted(latest: ExhaustedFor): Promise<void> {
    if (!(await rateLimits.saveExhausted(this.#options.db, this.#lease, latest))) throw new Error(NOT_LEADER)
  }

  /** A pause or a ban: no call is granted that would store until when nothing may be called. */
  async #savePause(): Promise<void> {
    const latest = this.limiter.exhaustedFor()
    if (Object.keys(latest).length > 0) await this.#saveExhausted(latest)
  }

  /** Once for each leadership: later figures are in the status. */
  #warnLearnt({ limit, windowMs, learnt = null, overstated = null }: RateStatus): void {
    if (this.#isLearntLogged || limit === null || (learnt === null && overstated === null)) return
    this.#isLearntLogged = true
    const { log, documented = [] } = this.#options
    const stated = documented.length === 0 ? ' and states no limit' : ''
    const what =
      overstated === null
        ? `it let ${formatLimit(limit, windowMs)} through, so no more are made`
        : `${formatOverstated(overstated.calls, overstated.windowMs, overstated)}: ${CHANGE_LIMIT}`
    log.warn(
      {
        event: 'rate_limit_learnt',
        scope: this.scope,
        limit,
        window_ms: windowMs,
        ...(overstated !== null && { stated: overstated.calls, granted: overstated.granted }),
      },
      `the service refused calls (429)${stated}: ${what}; \`fillrate status\` shows what is learnt from now on`,
    )
  }

  /** Whether a person wants the service to be tried, since this leader looked last. */
  async #isTryWanted(): Promise<boolean> {
    const before = this.#triedAt
    this.#triedAt = await readTry(this.#options.db, this.#options.service)
    return this.#triedAt !== before
  }

  async #saveCircuit(): Promise<void> {
    const { db, breaker } = this.#options
    if (breaker.snapshot() !== null && (await this.#isTryWanted())) breaker.probe()
    const snapshot = breaker.snapshot()
    if (snapshot !== null || this.#hasStoredCircuit) await rateLimits.saveCircuit(db, this.#lease, snapshot)
    this.#hasStoredCircuit = snapshot !== null
  }
}

const NOT_LEADER = 'this process is no longer the leader'

/** Stores what the next leader and `status` need: whether capacity is left, and how this leadership went. */
async function publishFinalStatus(
  { db, log }: LeaderOptions,
  lease: LeaderLease,
  state: RateStatus,
  exhaustedFor: ExhaustedFor,
): Promise<void> {
  try {
    const isKnown = state.limit !== null || Object.keys(exhaustedFor).length > 0
    if (isKnown) await rateLimits.saveExhausted(db, lease, exhaustedFor)
    await rateLimits.saveRateStatus(db, lease, { ...state, stallReason: null })
  } catch (error) {
    log[retryLogLevel(error)](
      { event: 'rate_limit_not_stored', reason: describeError(error) },
      'final rate status not stored for the next run',
    )
  }
}

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

  /** Service and key. */
  get scope(): string {
    return this.#options.scope
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
