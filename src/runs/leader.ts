import * as callers from '../store/callers.ts'
import * as outages from '../store/rate-limits.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as rateTold from '../store/rate-limits.ts'
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Breaker } from '../service/breaker.ts'
import { type Limiter, type RateState, createLimiter } from '../service/limiter.ts'
import { RateLog } from './rate-log.ts'
import type { Database } from '../store/open.ts'

export interface LeaderOptions {
  readonly db: Database
  /** What the limit belongs to: the service and the name of the key in use by now. */
  readonly scope: () => string
  /** Names this process; unique for each start. */
  readonly owner: string
  readonly log: Logger
  readonly concurrency: number
  readonly reserve: number
  /** Told of an outage that the caller before met; its own is kept for the caller after. */
  readonly breaker: Pick<Breaker, 'kept' | 'inherit'>
  /** Kept from one try to the next by whoever takes turns. */
  readonly attempt?: AcquireAttempt
}

/** The token of a try to take the turn whose answer was lost; null when it is known how the last one ended. */
export interface AcquireAttempt {
  token: string | null
}

/** How long a turn holds without being renewed; somebody who waits for it looks every second. */
const LEASE_MS = 6_000

/** How often it is renewed, and told how it stands. */
const RENEW_INTERVAL_MS = 1_500

/** A turn that could not be renewed is given up this long before it runs out, so that two never call at once. */
const SAFETY_MARGIN_MS = 2_000

/**
 * Elects the caller: whoever holds the lease of the scope. Renewed every few seconds; a process that dies is followed
 * within the length of a lease, and one that ends its turn is followed at once.
 * @returns a turn, or null while another process is the caller
 */
export async function acquireLeadership(options: LeaderOptions): Promise<Leadership | null> {
  const { db, owner, log, breaker } = options
  const scope = options.scope()
  const { attempt = { token: null } } = options
  // A try whose answer was lost may have won: the next one goes on under its token. To release it in the background
  // instead is one more loop that waits for Postgres with each try of an outage.
  const token = attempt.token ?? randomUUID()
  attempt.token = token
  const turn = { scope, token }
  let renewedAt = performance.now()
  const acquired = await callers.acquireLease(db, scope, token, owner, LEASE_MS)
  attempt.token = null
  if (!acquired) return null

  const known = await rateLimits.readRateLimit(db, scope)
  const spentForMs = await rateTold.exhaustedFor(db, scope)
  const wasBanned = (await rateTold.readRateStatuses(db)).get(scope)?.state === 'banned'
  const outage = await outages.findCircuit(db, scope)
  if (outage !== null) breaker.inherit(outage)
  let isDown = outage !== null
  let remembering: Promise<void> = Promise.resolve()
  const limiter: Limiter = createLimiter({
    concurrency: options.concurrency,
    reserve: options.reserve,
    warm: known,
    spentForMs,
    wasBanned,
    keepSpent: async (forMs) => {
      const { limit, windowMs } = limiter.state()
      if (limit === null) return
      if (!(await rateTold.saveExhausted(db, turn, { limit, windowMs }, forMs)))
        throw new Error('this process is not the caller any more')
    },
    onChange: (limit) => {
      remembering = remembering
        .then(() => rateLimits.saveRateLimit(db, scope, limit))
        .catch((error: unknown) => {
          log.warn({ reason: (error as Error).message }, 'the limit could not be kept for the next run')
        })
    },
  })
  const lost = new AbortController()
  let renewing = false
  const rateLog = new RateLog(log, scope)
  const keepOutage = async (): Promise<void> => {
    const kept = breaker.kept()
    if (kept !== null || isDown) await outages.saveCircuit(db, turn, kept)
    isDown = kept !== null
  }
  const renew = async (): Promise<void> => {
    if (performance.now() - renewedAt > LEASE_MS - SAFETY_MARGIN_MS) {
      log.warn({ scope }, 'the turn as the caller could not be renewed in time: calling stops')
      lost.abort(new Error('the turn as the caller could not be renewed in time'))
      return
    }
    if (options.scope() !== scope) {
      log.info({ scope, next: options.scope() }, 'the key has changed: this turn as the caller ends')
      lost.abort(new Error('the key has changed'))
      return
    }
    if (renewing) return
    renewing = true
    const began = performance.now()
    try {
      if (await callers.acquireLease(db, scope, token, owner, LEASE_MS)) renewedAt = began
      else lost.abort(new Error('another process is the caller now'))
      const state = limiter.state()
      rateLog.observe(state, began)
      await rateTold.saveRateStatus(db, turn, toRateStatus(state))
      await keepOutage()
    } catch (error) {
      log.warn({ reason: (error as Error).message }, 'the turn as the caller was not renewed, will try again')
    } finally {
      renewing = false
    }
  }
  const timer = setInterval(() => void renew(), RENEW_INTERVAL_MS)
  log.debug({ scope, owner }, 'this process is the caller')

  return {
    scope,
    limiter,
    lost: lost.signal,
    end: async () => {
      clearInterval(timer)
      const [state, spent] = [limiter.state(), limiter.spentForMs()]
      await limiter.stop()
      await remembering
      await publishFinalStatus(options, turn, state, spent)
      await keepOutage().catch(() => {})
      await callers.releaseLease(db, scope, token).catch((error: unknown) => {
        log.warn(
          { reason: (error as Error).message },
          'the turn as the caller was not given up; it runs out by itself',
        )
      })
    },
  }
}

/** What the next caller and `status` find: whether something is left of the limit, and how this turn went. */
async function publishFinalStatus(
  { db, log }: LeaderOptions,
  turn: { readonly scope: string; readonly token: string },
  state: RateState,
  spentForMs: number | null,
): Promise<void> {
  if (state.limit === null) return
  try {
    await rateTold.saveExhausted(db, turn, { limit: state.limit, windowMs: state.windowMs }, spentForMs)
    await rateTold.saveRateStatus(db, turn, { ...toRateStatus(state), stall_reason: null })
  } catch (error) {
    log.warn({ reason: (error as Error).message }, 'how the limit stands could not be kept for the next run')
  }
}

/** How the process that calls stands, as it told it moments ago; null where none calls, or none has told it yet. */
export async function readLeaderStatus(db: Database, scope: string, now: number): Promise<RateState | null> {
  const told = (await rateTold.readRateStatuses(db)).get(scope)
  if (told === undefined || !told.live) return null
  const nextWindowAt = told.next_window_at === null ? null : Date.parse(told.next_window_at)
  return {
    state: told.state,
    limit: told.limit,
    windowMs: told.window_ms,
    windowAtMostMs: told.window_at_most_ms ?? null,
    used: told.used,
    permitted: told.permitted,
    utilisation: told.utilisation,
    windowUsed: told.window_used,
    nextWindowAt,
    nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
    waiting: told.stall_reason,
    throttled: told.throttled,
    foreign: told.shared_key,
    isElsewhere: true,
  }
}

/** Null where there is none, or where it is beyond the calendar. */
function toIsoTime(at: number | null): string | null {
  const date = at === null ? null : new Date(at)
  return date === null || Number.isNaN(date.getTime()) ? null : date.toISOString()
}

const toRateStatus = (rate: RateState): rateTold.RateStatus => ({
  state: rate.state,
  limit: rate.limit,
  window_ms: rate.windowMs,
  window_at_most_ms: rate.windowAtMostMs,
  used: rate.used,
  permitted: rate.permitted,
  utilisation: rate.utilisation,
  window_used: rate.windowUsed,
  next_window_at: toIsoTime(rate.nextWindowAt),
  stall_reason: rate.waiting,
  throttled: rate.throttled,
  shared_key: rate.foreign,
})

/**
 * A turn as the caller: the one process that calls the service, because the limit belongs to the key and not to a
 * process. The limiter is the turn's own; a new turn starts from what was last known.
 */
export interface Leadership {
  /** The service and the key that are called: the runs of another are not served. */
  readonly scope: string
  readonly limiter: Limiter
  /** Aborted when the turn could not be kept: another process may call by now. */
  readonly lost: AbortSignal
  /** Gives the turn up, so that the next process need not wait. */
  end(): Promise<void>
}

/** @returns null while another process is the caller */
export type AcquireLeadership = () => Promise<Leadership | null>

/** What the process that calls has told of the rate; null where it has told nothing. */
export type ReadRateStatus = () => Promise<RateState | null>
