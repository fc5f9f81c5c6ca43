import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { LEASE_MS } from '../pipeline/deps.ts'
import type { Meter } from '../pipeline/meter.ts'
import type { Turn } from '../pipeline/run/turn.ts'
import { createLimiter } from '../service/limiter.ts'
import * as callers from '../store/callers.ts'
import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'

export interface CallerOptions {
  readonly db: Database
  /** What the limit belongs to: the service and the key, without the key. */
  readonly scope: string
  /** Names this process; unique for each start. */
  readonly owner: string
  readonly log: Logger
  readonly concurrency: number
  readonly reserve: number
  /** Told how the quota stands. */
  readonly meter?: Meter
}

/** A lease that could not be renewed is given up this long before it runs out, so that two never call at once. */
const SAFETY_MS = 3_000

/**
 * Elects the caller: whoever holds the lease of the scope. Renewed every few seconds; a process that dies is followed
 * within the length of a lease, and one that ends its turn is followed at once.
 * @returns a turn, or null while another process is the caller
 */
export async function takeTurn(options: CallerOptions): Promise<Turn | null> {
  const { db, scope, owner, log } = options
  const token = randomUUID()
  let renewedAt = performance.now()
  if (!(await callers.acquire(db, scope, token, owner, LEASE_MS))) return null

  const known = await rateLimits.recall(db, scope)
  let remembering: Promise<void> = Promise.resolve()
  const limiter = createLimiter({
    concurrency: options.concurrency,
    reserve: options.reserve,
    warm: known,
    onChange: (limit) => {
      remembering = remembering
        .then(() => rateLimits.remember(db, scope, limit))
        .catch((error: unknown) => {
          log.warn({ reason: (error as Error).message }, 'the limit could not be kept for the next run')
        })
    },
  })
  const unwatch = options.meter?.watch(scope, () => limiter.state())
  const lost = new AbortController()
  let renewing = false
  const renew = async (): Promise<void> => {
    if (performance.now() - renewedAt > LEASE_MS - SAFETY_MS) {
      log.warn({ scope }, 'the turn as the caller could not be renewed in time: calling stops')
      lost.abort(new Error('the turn as the caller could not be renewed in time'))
      return
    }
    if (renewing) return
    renewing = true
    const began = performance.now()
    try {
      if (await callers.acquire(db, scope, token, owner, LEASE_MS)) renewedAt = began
      else lost.abort(new Error('another process is the caller now'))
    } catch (error) {
      log.warn({ reason: (error as Error).message }, 'the turn as the caller was not renewed, will try again')
    } finally {
      renewing = false
    }
  }
  const timer = setInterval(() => void renew(), LEASE_MS / 5)
  log.debug({ scope, owner }, 'this process is the caller')

  return {
    limiter,
    lost: lost.signal,
    end: async () => {
      clearInterval(timer)
      unwatch?.()
      await limiter.stop()
      await remembering
      await callers.release(db, scope, token).catch((error: unknown) => {
        log.warn(
          { reason: (error as Error).message },
          'the turn as the caller was not given up; it runs out by itself',
        )
      })
    },
  }
}
