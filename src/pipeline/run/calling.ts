import { setTimeout as sleep } from 'node:timers/promises'
import { keyPauseMs } from '../../domain/backoff.ts'
import { priorityOf } from '../../domain/run.ts'
import type { ServiceError } from '../../service/errors.ts'
import * as followed from '../../store/followed.ts'
import { throughOutage } from '../../store/outage.ts'
import * as runs from '../../store/runs.ts'
import type { CallDeps } from '../deps.ts'
import * as lookUp from '../look-up/look-up.ts'
import { remembered } from '../remembered.ts'
import * as submit from '../submit/submit.ts'
import { loop } from './loop.ts'
import type { Nudge } from './nudge.ts'
import type { Tally } from './tally.ts'
import type { TakeTurn, Turn } from './turn.ts'

/** Lookups of one tick: after so many, more urgent runs are looked at again. */
const LOOKUPS_A_TICK = 5_000

export interface CallingOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly takeTurn: TakeTurn
  /** Tells what was done to every run of this process. */
  readonly tally: (act: (tally: Tally) => void) => void
  readonly toLookUp: Nudge
  readonly toSync: Nudge
  readonly toSubmit: Nudge
  readonly wakeWriters: () => void
  /** Ends the calling when what is under way is done. */
  readonly signal: AbortSignal
  readonly onTurn: (turn: Turn | null) => void
  /** How long to wait after so many refusals in a row, in milliseconds. */
  readonly pauseMs?: (refusals: number) => number
  /** A lookup was answered. */
  readonly onAnswered?: () => void
  /** The service refuses us for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Calls the service whenever it is this process's turn: for all live runs of its scope, the most urgent first. */
export async function callWhenever(options: CallingOptions): Promise<void> {
  const { deps, signal, pauseMs = keyPauseMs } = options
  const work = options.toLookUp.listen()
  /** Turns in a row that ended because the service refuses us. */
  let refusals = 0
  // What was refused in a run before this one of the same process is tried again.
  deps.client.retryKeys()
  while (!signal.aborted) {
    const turn = await throughOutage(options.takeTurn, {
      signal,
      onWait: (error, ms) =>
        deps.log.warn({ step: 'call', reason: error.message, ms }, 'waiting for Postgres'),
    }).catch((error: unknown) => {
      if (signal.aborted) return null
      throw error
    })
    if (turn === null) {
      await work.wait(1_000, signal)
      continue
    }
    options.onTurn(turn)
    let ended = { refused: false, answered: false }
    try {
      ended = await callFor(options, { ...deps, limiter: turn.limiter }, turn)
    } finally {
      await turn.end()
      options.onTurn(null)
    }
    if (ended.answered) refusals = 0
    if (!ended.refused || signal.aborted) continue
    // Somebody may have put the key right meanwhile.
    await sleep(pauseMs(++refusals), undefined, { signal }).catch(() => {})
    deps.client.retryKeys()
  }
}

/** How a turn ended: whether the service refuses us, and whether it had answered before. */
interface Ended {
  readonly refused: boolean
  readonly answered: boolean
}

async function callFor(given: CallingOptions, deps: CallDeps, turn: Turn): Promise<Ended> {
  let refused = false
  let answered = false
  const options: CallingOptions = {
    ...given,
    onAnswered: () => {
      answered = true
    },
    onStop: (error) => {
      refused = true
      ended.abort()
      given.onStop(error)
    },
  }
  const ended = new AbortController()
  const signal = AbortSignal.any([options.signal, turn.lost, ended.signal])
  const common = { signal, log: deps.log }
  // The loops look at the same moments. Not for syncs: nothing may keep one waiting.
  const live = remembered(() => runs.live(deps.db, turn.scope), { least: 100 })
  const loops = [
    lookUpUrgent(options, deps, turn.scope, signal),
    // Each in its own loop: a backfill's tick may wait for permits for as long as a window lasts.
    ...(['normal', 'low'] as const).map((priority) =>
      loop({
        ...common,
        name: `look up, ${priority}`,
        nudge: options.toLookUp,
        tick: async () => {
          let did = 0
          for (const run of await live()) {
            if (signal.aborted) break
            if (priorityOf(run.trigger) !== priority) continue
            did += await lookUpFor(options, deps, run, { most: LOOKUPS_A_TICK, signal })
          }
          return did
        },
      }),
    ),
    loop({
      ...common,
      name: 'submit',
      nudge: options.toSubmit,
      tick: async () => {
        let did = 0
        for (const run of await live()) {
          if (signal.aborted) break
          const result = await submit.tick(deps, run, { signal })
          did += result.calls
          options.tally((tally) => {
            tally.bulk += result.calls
            tally.submitted += result.emails
            tally.throttled += result.throttled
            if (result.calls > 0) tally.moved()
          })
          if (result.stop !== null) options.onStop(result.stop)
        }
        return did
      },
    }),
  ]
  // A turn that one loop has failed in is over for all of them, before another process may have it.
  await Promise.all(
    loops.map((one) =>
      one.catch((error: unknown) => {
        ended.abort()
        throw error
      }),
    ),
  ).catch(async (error: unknown) => {
    await Promise.allSettled(loops)
    throw error
  })
  return { refused, answered }
}

/** Ticks under way at once, at the most: each has at least one call on the wire. */
const URGENT_TICKS = 64

/**
 * Looks up for syncs. A tick is not waited for, or a change would wait for the slowest answer of those before it: the
 * next one begins when the one before has leased what was there.
 */
async function lookUpUrgent(
  options: CallingOptions,
  deps: CallDeps,
  scope: string,
  signal: AbortSignal,
): Promise<void> {
  const underWay = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const begin = async (run: runs.LiveRun): Promise<number> => {
    if (underWay.size >= URGENT_TICKS) await Promise.race(underWay)
    const leased = Promise.withResolvers<number>()
    const task = lookUpFor(options, deps, run, { most: LOOKUPS_A_TICK, signal, onLeased: leased.resolve })
      .then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      .finally(() => {
        underWay.delete(task)
        leased.resolve(0)
      })
    underWay.add(task)
    return leased.promise
  }
  try {
    await loop({
      name: 'look up, sync',
      log: deps.log,
      signal,
      nudge: options.toSync,
      tick: async () => {
        if (failure !== null) {
          const { error } = failure
          failure = null
          throw error
        }
        let did = 0
        for (const run of await runs.live(deps.db, scope)) {
          if (signal.aborted || priorityOf(run.trigger) !== 'urgent') break
          if (await followed.anyToAsk(deps.db, run.id)) did += await begin(run)
        }
        return did
      },
    })
  } finally {
    await Promise.all(underWay)
  }
}

async function lookUpFor(
  options: CallingOptions,
  deps: CallDeps,
  run: runs.LiveRun,
  tick: Pick<lookUp.LookUpOptions, 'most' | 'signal' | 'onLeased'>,
): Promise<number> {
  const result = await lookUp.tick(deps, run, {
    ...tick,
    onAnswer: () => {
      options.tally((tally) => tally.moved())
      options.wakeWriters()
    },
    onAsked: (call) =>
      options.tally((tally) => {
        tally.asked++
        tally[call]++
      }),
  })
  options.tally((tally) => {
    tally.retried += result.retried
    tally.throttled += result.throttled
  })
  if (result.answered > 0) options.onAnswered?.()
  if (result.stop !== null) options.onStop(result.stop)
  return result.asked
}
