import { describeError } from '../util/error-text.ts'
import { randomUUID } from 'node:crypto'
import type { Log } from '../util/log.ts'
import { type ExhaustedFor, formatLimit, type KnownLimit, type RateStatus } from '../domain/rate-status.ts'
import type { DocumentedLimit } from '../domain/service/documented-limit.ts'
import type { Breaker } from '../service/breaker.ts'
import { createLimiter, type Limiter } from '../service/rate-limit/limiter.ts'
import { retryLogLevel } from '../store/connectivity.ts'
import * as leases from '../store/leases.ts'
import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'

export interface LeaderOptions {
  readonly db: Database
  /** Scope of the limit: the service and the identifier of the current key. */
  readonly scope: () => string
  /** Identifies this process; unique for each start. */
  readonly owner: string
  readonly log: Log
  readonly reserve: number
  /** Limits that the service documents. Default: none. */
  readonly documented?: readonly DocumentedLimit[]
  /** Restored from the previous leader's circuit; its own is stored for the next leader. */
  readonly breaker: Pick<Breaker, 'snapshot' | 'restore'>
  readonly now?: () => number
}

/** The right to call the service, held by one process at a time, because the limit belongs to the key. */
export interface Leadership {
  /** Service and key: runs of other scopes are not served. */
  readonly scope: string
  /** Belongs to this leadership, and starts from the last known state. */
  readonly limiter: Limiter
  /** Aborts when the lease could not be renewed: another process may be calling by now. */
  readonly lost: AbortSignal
  /** Resigns, so that the next process need not wait for the lease to expire. */
  end(): Promise<void>
}

/** What the calls of a process need of its elector. */
export type Elector = Pick<LeaderElector, 'scope' | 'acquire' | 'readStatus'>

/** Lease duration without a renewal; followers poll every second. */
const LEASE_MS = 6_000

/** Interval of renewals and status reports. */
const RENEW_INTERVAL_MS = 1_500

/** A lease that could not be renewed is given up this long before it expires, so that two processes never call at once. */
const SAFETY_MARGIN_MS = 2_000

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
    const { db, owner } = this.#options
    const { scope } = this
    // An attempt whose response was lost may have won: reuse its token. Releasing it in the background would be one
    // more loop waiting for Postgres during an outage.
    const token = this.#attempt ?? randomUUID()
    this.#attempt = token
    const acquiredAt = performance.now()
    const isAcquired = await leases.acquireLease(db, scope, token, owner, LEASE_MS)
    this.#attempt = null
    return isAcquired ? lead(this.#options, { scope, token }, acquiredAt) : null
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

interface LeaderLease {
  readonly scope: string
  readonly token: string
}

/** Starts a leadership from what the previous one has stored, and keeps its lease. */
async function lead(options: LeaderOptions, lease: LeaderLease, acquiredAt: number): Promise<Leadership> {
  const { db, owner, log, breaker, documented = [] } = options
  const { scope, token } = lease
  const lastLimit = await rateLimits.readRateLimit(db, scope)
  const exhaustedFor = await rateLimits.readExhausted(db, scope)
  const previous = await rateLimits.readPreviousLeader(db, scope)
  const [firstLimit] = documented
  const usage = firstLimit === undefined ? null : await rateLimits.readLimitUsage(db, scope)
  const circuit = await rateLimits.findCircuit(db, scope)
  if (circuit !== null) breaker.restore(circuit)
  let hasStoredCircuit = circuit !== null
  let isLearntLogged = false
  let savingLimit: Promise<void> = Promise.resolve()
  const limiter: Limiter = createLimiter({
    reserve: options.reserve,
    warm: lastLimit,
    exhaustedFor,
    previous,
    documented: {
      limits: documented,
      usage,
      persist: async (latest) => {
        if (firstLimit && !(await rateLimits.saveLimitUsage(db, lease, firstLimit, latest)))
          throw new Error('this process is no longer the leader')
      },
    },
    persistExhaustion: async (latest) => {
      const { limit, windowMs } = limiter.state()
      if (limit === null) return
      if (!(await rateLimits.saveExhausted(db, lease, { limit, windowMs }, latest)))
        throw new Error('this process is no longer the leader')
    },
    onChange: (limit) => {
      if (limit.isLearnt === true && !isLearntLogged) warnLearnt(log, scope, limit, firstLimit)
      isLearntLogged ||= limit.isLearnt === true
      savingLimit = savingLimit
        .then(() => rateLimits.saveRateLimit(db, scope, limit))
        .catch((error: unknown) => {
          log[retryLogLevel(error)](
            { event: 'rate_limit_not_stored', reason: describeError(error) },
            'rate limit not stored for the next run',
          )
        })
    },
  })
  const lost = new AbortController()
  let renewedAt = acquiredAt
  let isRenewing = false
  /** Why the lease was not renewed last; null: it was, or nothing has come back yet. */
  let failure: unknown = null
  const saveCircuit = async (): Promise<void> => {
    const snapshot = breaker.snapshot()
    if (snapshot !== null || hasStoredCircuit) await rateLimits.saveCircuit(db, lease, snapshot)
    hasStoredCircuit = snapshot !== null
  }
  const renew = async (): Promise<void> => {
    if (performance.now() - renewedAt > LEASE_MS - SAFETY_MARGIN_MS) {
      // Once: the loops may take long to end. An outage of Postgres is said as a trouble.
      clearInterval(timer)
      log[retryLogLevel(failure)](
        { event: 'leader_lease_lost', scope },
        'lost the leader lease; stopping API calls',
      )
      lost.abort(new Error('the leader lease could not be renewed in time'))
      return
    }
    if (options.scope() !== scope) {
      log.info(
        { event: 'leader_key_changed', scope, next: options.scope() },
        'the key has changed; resigning as leader',
      )
      lost.abort(new Error('the key has changed'))
      return
    }
    if (isRenewing) return
    isRenewing = true
    const startedAt = performance.now()
    try {
      const isRenewed = await leases.acquireLease(db, scope, token, owner, LEASE_MS)
      failure = null
      if (isRenewed) renewedAt = startedAt
      else lost.abort(new Error('another process is the leader now'))
      const state = limiter.state()
      await rateLimits.saveRateStatus(db, lease, state)
      await saveCircuit()
    } catch (error) {
      failure = error
      log[retryLogLevel(error)](
        { event: 'leader_lease_not_renewed', reason: describeError(error) },
        'leader lease not renewed; retrying',
      )
    } finally {
      isRenewing = false
    }
  }
  const timer = setInterval(() => void renew(), RENEW_INTERVAL_MS)
  log.debug({ event: 'leader_elected', scope, owner }, 'this process is the leader')

  return {
    scope,
    limiter,
    lost: lost.signal,
    end: async () => {
      clearInterval(timer)
      const [state, lastExhausted] = [limiter.state(), limiter.exhaustedFor()]
      const lastUsage = limiter.usage()
      await limiter.stop()
      await savingLimit
      // Without it the next leader takes the calls that were noted ahead for made.
      if (firstLimit && lastUsage)
        await rateLimits.saveLimitUsage(db, lease, firstLimit, lastUsage).catch(() => {})
      await publishFinalStatus(options, lease, state, lastExhausted)
      await saveCircuit().catch(() => {})
      await leases.releaseLease(db, scope, token).catch((error: unknown) => {
        log[retryLogLevel(error)](
          { event: 'leader_lease_not_renewed', reason: describeError(error) },
          'leader lease not released; it expires by itself',
        )
      })
    },
  }
}

/** Stores what the next leader and `status` need: whether capacity is left, and how this leadership went. */
async function publishFinalStatus(
  { db, log }: LeaderOptions,
  lease: LeaderLease,
  state: RateStatus,
  exhaustedFor: ExhaustedFor,
): Promise<void> {
  if (state.limit === null) return
  try {
    const { limit, windowMs } = state
    await rateLimits.saveExhausted(db, lease, { limit, windowMs }, exhaustedFor)
    await rateLimits.saveRateStatus(db, lease, { ...state, stallReason: null })
  } catch (error) {
    log[retryLogLevel(error)](
      { event: 'rate_limit_not_stored', reason: describeError(error) },
      'final rate status not stored for the next run',
    )
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

/** Once for each leadership: later figures are in the status. */
function warnLearnt(
  log: Log,
  scope: string,
  known: KnownLimit,
  documented: DocumentedLimit | undefined,
): void {
  const stated =
    documented === undefined
      ? 'states no limit'
      : `allows fewer than the documented ${formatLimit(documented.calls, documented.windowMs)}`
  log.warn(
    { event: 'rate_limit_learnt', scope, limit: known.limit, window_ms: known.windowMs },
    `the service refused calls (429) and ${stated}: it let ${formatLimit(known.limit, known.windowMs)} through, so no more are made; \`fillrate status\` shows what is learnt from now on`,
  )
}
