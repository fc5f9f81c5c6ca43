import { sql } from 'kysely'
import type { RateStatus } from '../domain/rate-status.ts'
import { type CallFacts, findSlowness } from '../domain/slowness.ts'
import { SINGLE_ENDPOINTS } from '../domain/spend.ts'
import {
  CALL_DURATION_BOUNDS_MS,
  listRequestCounts,
  REQUEST_COUNT_STEP_MS,
  type RequestCount,
} from './metrics.ts'
import type { Database } from './open.ts'
import { intervalSql, readOne } from './sql.ts'

/** Calls of this long count for how fast the service is, in milliseconds. */
const CALLS_MS = 120_000
/** Later calls do not count for what is usual: they are those in question. */
const IN_QUESTION_MS = 60_000
/** Fewer steps show nothing usual. */
const MIN_USUAL_STEPS = 3

interface CallingLeader {
  readonly status: Pick<RateStatus, 'limit' | 'windowMs'> | null
  readonly slots: number | null
}

/** What shows how fast the service answers single calls, over all leaders that are alive. */
export async function readCallFacts(
  db: Database,
  leaders: readonly CallingLeader[],
  now: number,
): Promise<CallFacts> {
  const counts = await listRequestCounts(db, CALLS_MS)
  const facts: CallFacts = {
    ended: counts.filter(isSingleCall).map(toEndedCalls),
    stepMs: REQUEST_COUNT_STEP_MS,
    slots: leaders.some(({ slots }) => slots !== null)
      ? leaders.reduce((sum, { slots }) => sum + (slots ?? 0), 0)
      : null,
    callsPerSecond: leaders.every(({ status }) => status?.limit && status.windowMs)
      ? leaders.reduce((sum, { status }) => sum + toRate(status), 0)
      : null,
    usualMs: null,
  }
  // Reading a day of calls takes some milliseconds: only where the service would be slow beside the fastest one.
  if (findSlowness({ ...facts, usualMs: 0 }, now) === null) return facts
  return { ...facts, usualMs: await readUsualDuration(db) }
}

const isSingleCall = ({ endpoint }: RequestCount): boolean =>
  SINGLE_ENDPOINTS.some((single) => single === endpoint)

const toRate = (status: CallingLeader['status']): number =>
  status?.limit && status.windowMs ? (status.limit * 1_000) / status.windowMs : 0

const toEndedCalls = ({ at, calls, durations, maxMs }: RequestCount): CallFacts['ended'][number] => ({
  at,
  calls,
  durations: durations.flatMap((n, slot) => {
    const low = CALL_DURATION_BOUNDS_MS[slot - 1] ?? 0
    const high = Math.min(CALL_DURATION_BOUNDS_MS[slot] ?? maxMs, maxMs)
    return n === 0 ? [] : [{ ms: (low + Math.max(low, high)) / 2, calls: n }]
  }),
})

/**
 * What a call took in a fast step of the last day: a service that is slow for three quarters of a day is usually slow.
 */
async function readUsualDuration(db: Database): Promise<number | null> {
  const middles = CALL_DURATION_BOUNDS_MS.map(
    (high, slot) => (high + (CALL_DURATION_BOUNDS_MS[slot - 1] ?? 0)) / 2,
  )
  const busyMs = sql.raw(
    [...middles, CALL_DURATION_BOUNDS_MS.at(-1)]
      .map((ms, slot) => `coalesce(durations[${slot + 1}], 0) * ${ms}`)
      .join(' + '),
  )
  const usual = sql<{ ms: number | null }>`
    select case when count(*) >= ${MIN_USUAL_STEPS} then percentile_cont(0.25) within group (order by ms) end::float8 as ms
      from (select sum(${busyMs}) / sum(calls) as ms from fillrate.request_counts
             where endpoint in (${sql.join(SINGLE_ENDPOINTS)}) and calls > 0 and at < now() - ${intervalSql(IN_QUESTION_MS)} group by at) steps`
  return (await readOne(db, usual)).ms
}
