import { afterAsk } from '../../domain/lookup.ts'
import { routeEmails } from '../../domain/route.ts'
import { priorityOf } from '../../domain/run.ts'
import type { ServiceError } from '../../service/errors.ts'
import type { PermittedCall } from '../../service/quota/permits.ts'
import * as toGiveBack from '../../store/give-back.ts'
import * as jobs from '../../store/jobs.ts'
import * as lookups from '../../store/lookups.ts'
import { throughOutage } from '../../store/outage.ts'
import type { LiveRun } from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import { eraseAnswered, hashesOf } from '../forget/in-answers.ts'
import { gather } from '../gather.ts'
import { ask } from './ask.ts'
import { Leases } from './leases.ts'
import { openCalls } from './open-calls.ts'

export interface LookUpResult {
  readonly asked: number
  readonly retried: number
  readonly throttled: number
  /** The service refuses us for good: no further call makes sense until somebody acts. */
  readonly stop: ServiceError | null
}

export interface LookUpOptions {
  readonly most: number
  /** Ends it early: what is under way is finished, nothing new is begun. */
  readonly signal: AbortSignal
  /** One call is made, to one of the two endpoints. */
  readonly onAsked?: (call: 'person' | 'company') => void
  /** Some answers are stored. */
  readonly onAnswer?: () => void
}

/**
 * Asks up to `most` waiting lookups of a run, one call each, as fast as the limiter grants.
 *
 * A permit comes first, then the lease, then the call: so no more lookups are leased than there are calls on the
 * wire, and a crash leaves at most one a slot in doubt. A slot is free again when its answer is stored, not when it
 * came, so that no answer waits in memory for a write that may never happen. The answers of many slots go together.
 */
export async function tick(deps: CallDeps, run: LiveRun, options: LookUpOptions): Promise<LookUpResult> {
  const count = { asked: 0, retried: 0, throttled: 0 }
  const leases = new Leases(deps)
  const underWay = new Set<Promise<void>>()
  let stop: ServiceError | null = null
  const store = gather(async (answers: lookups.Answer[]) => {
    await throughOutage(async () => eraseAnswered(deps.db, await lookups.answer(deps.db, answers)), {
      onWait: (error, ms) => deps.log.warn({ reason: error.message, ms }, 'answers wait for Postgres'),
    })
    options.onAnswer?.()
  })

  async function handle(lookup: lookups.LeasedLookup, call: PermittedCall): Promise<void> {
    options.onAsked?.(lookup.kind === 'domain' ? 'company' : 'person')
    const asked = await ask(deps, lookup, call, leases.lost)
    if (asked.event === null) {
      const { acceptedAs } = asked
      await throughOutage(
        () => jobs.acceptSingle(deps.db, lookup, acceptedAs, run.id, deps.rules.bulkDeadlineMs),
        { onWait: (error, ms) => deps.log.warn({ reason: error.message, ms }, 'answers wait for Postgres') },
      )
    } else {
      stop ??= asked.stop
      if (asked.throttled) count.throttled++
      if (asked.event.type === 'fault') count.retried++
      const fields = afterAsk(lookup, asked.event, deps.rules, deps.now(), deps.random())
      await store({ id: lookup.id, token: lookup.token, ...fields, hashes: hashesOf(fields.record) })
    }
    count.asked++
    leases.drop(lookup.token)
  }

  try {
    while (count.asked + underWay.size < options.most && stop === null && !options.signal.aborted) {
      const open = openCalls(deps.breaker, deps.now())
      if (open === 0) break
      const free = Math.min(
        deps.rules.concurrency - underWay.size,
        options.most - count.asked - underWay.size,
        open,
      )
      if (free <= 0) {
        await Promise.race(underWay)
        continue
      }
      const permits = await deps.limiter
        .acquire(free, priorityOf(run.trigger), options.signal)
        .catch((error: unknown) => {
          if (options.signal.aborted) return null
          throw error
        })
      if (permits === null) break
      try {
        const token = leases.mint()
        const leased = await leaseNext(deps, run, permits.count, token).catch(giveBack(deps, token))
        if (leased.length === 0) break
        leases.hold(leased[0]?.token ?? '', leased.length)
        for (const lookup of leased) {
          const task = handle(lookup, permits.use()).finally(() => underWay.delete(task))
          task.catch(() => {}) // told below, when all are done
          underWay.add(task)
        }
      } finally {
        permits.release()
      }
    }
    await Promise.all(underWay)
  } finally {
    await Promise.allSettled(underWay)
    leases.end()
  }
  return { ...count, stop }
}

/** A lease may be committed and its answer lost: nothing was asked under it, so that it need not run out first. */
const giveBack =
  (deps: Pick<CallDeps, 'db'>, token: string) =>
  async (error: unknown): Promise<never> => {
    await throughOutage(() => toGiveBack.lookups(deps.db, token), {})
    throw error
  }

/** First what never goes in bulk; then emails, where they are to go singly. */
async function leaseNext(
  deps: CallDeps,
  run: LiveRun,
  limit: number,
  token: string,
): Promise<lookups.LeasedLookup[]> {
  const lease = { run: run.id, limit, token, leaseMs: LEASE_MS }
  const single = await lookups.lease(deps.db, { ...lease, from: 'single' })
  const { bulkFrom, singly } = routeEmails({
    option: run.options.route,
    bulkPossible: deps.webhookUrl !== null,
    picking: run.picking,
    minimum: deps.rules.bulkMinimum,
  })
  if (single.length === limit || singly === 'never') return single
  const emails = await lookups.lease(deps.db, {
    ...lease,
    from: 'emails',
    limit: limit - single.length,
    unlessWaiting: singly === 'when_fewer' ? (bulkFrom ?? undefined) : undefined,
  })
  return [...single, ...emails]
}
