import type { ServiceError } from '../../service/errors.ts'
import { throughOutage } from '../../store/outage.ts'
import * as runs from '../../store/runs.ts'
import type { CallDeps } from '../deps.ts'
import * as lookUp from '../look-up/look-up.ts'
import * as submit from '../submit/submit.ts'
import { loop } from './loop.ts'
import type { Nudge } from './nudge.ts'
import type { Tally } from './tally.ts'
import type { TakeTurn, Turn } from './turn.ts'

/** Lookups of one tick: after so many, more urgent runs are looked at again. */
const LOOKUPS_A_TICK = 2_000

export interface CallingOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly takeTurn: TakeTurn
  readonly tally: Tally
  readonly toLookUp: Nudge
  readonly toSubmit: Nudge
  readonly wakeWriters: () => void
  /** Ends the calling when what is under way is done. */
  readonly signal: AbortSignal
  readonly onTurn: (turn: Turn | null) => void
  /** The service refuses us for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Calls the service whenever it is this process's turn: for all live runs, the most urgent first. */
export async function callWhenever(options: CallingOptions): Promise<void> {
  const { deps, signal } = options
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
      await options.toLookUp.wait(1_000, signal)
      continue
    }
    options.onTurn(turn)
    try {
      await callFor(options, { ...deps, limiter: turn.limiter }, turn)
    } finally {
      await turn.end()
      options.onTurn(null)
    }
  }
}

async function callFor(options: CallingOptions, deps: CallDeps, turn: Turn): Promise<void> {
  const { tally } = options
  const signal = AbortSignal.any([options.signal, turn.lost])
  const stopAt = (error: ServiceError | null): void => {
    if (error !== null) options.onStop(error)
  }
  const common = { signal, log: deps.log }
  await Promise.all([
    loop({
      ...common,
      name: 'look up',
      nudge: options.toLookUp,
      tick: async () => {
        let did = 0
        for (const run of await runs.live(deps.db)) {
          if (signal.aborted) break
          const result = await lookUp.tick(deps, run, {
            most: LOOKUPS_A_TICK,
            signal,
            onAnswer: () => {
              tally.moved()
              options.wakeWriters()
            },
            onAsked: (call) => {
              tally.asked++
              tally[call]++
            },
          })
          did += result.asked
          tally.retried += result.retried
          tally.throttled += result.throttled
          stopAt(result.stop)
        }
        return did
      },
    }),
    loop({
      ...common,
      name: 'submit',
      nudge: options.toSubmit,
      tick: async () => {
        let did = 0
        for (const run of await runs.live(deps.db)) {
          if (signal.aborted) break
          const result = await submit.tick(deps, run, { signal })
          did += result.calls
          tally.bulk += result.calls
          tally.submitted += result.emails
          tally.throttled += result.throttled
          if (result.calls > 0) tally.moved()
          stopAt(result.stop)
        }
        return did
      },
    }),
  ])
}
