import type { SlowedWrites } from '../domain/report/status.ts'
import { MAX_AWAITED_DELAY_MS } from '../domain/backoff.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { formatCount } from '../util/text.ts'
import type { AwaitedJobs } from '../store/run-progress.ts'
import { FULL_CHECK_MS } from './completion.ts'

interface StallFacts {
  /** What Postgres refuses to this process, in words; null: nothing. */
  readonly databaseOutage: string | null
  readonly rate: RateStatus | null
  /** Time without progress, in milliseconds. */
  readonly idleMs: number
  /** Own rows that are answered but locked by other transactions. */
  readonly locked: number
  /** Own rows that are not finished. */
  readonly waiting: number
  readonly jobsWaiting: AwaitedJobs
  /** Rows of the same sources held by other runs. */
  readonly others: number
  readonly slowedWrites: readonly SlowedWrites[]
}

/** Why a run makes no progress, in words; null: it makes some. Pure. */
export function describeStall(run: StallFacts): string | null {
  const { databaseOutage, rate, locked, waiting, jobsWaiting, others } = run
  if (databaseOutage !== null) return databaseOutage
  if (rate?.stallReason) return rate.stallReason
  const [slowed] = run.slowedWrites
  if (slowed !== undefined)
    return `writes to ${slowed.source} wait: its \`writes\` allow ${formatCount(slowed.per_hour)} rows an hour`
  if (run.idleMs < 2 * FULL_CHECK_MS) return null
  if (locked > 0)
    return locked === 1
      ? 'another transaction has locked a row'
      : `other transactions have locked ${locked} rows`
  if (waiting > 0 && jobsWaiting.all > 0) return describeAwaitedJobs(jobsWaiting)
  if (waiting === 0 && others > 0) return `another run works on ${others} rows of the same sources`
  if (rate === null || rate.isRemote) return 'another process calls the service'
  return null
}

/** How long a run waits for a quota that opens, and for a service that refuses every call, in milliseconds. */
const MAX_QUOTA_WAIT_MS = 60 * 60_000
const MAX_REFUSED_MS = 15 * 60_000

/**
 * Why the service grants no call for longer than a run waits, in words that say until when; null: it does. That is more than a minute
 * after a refusal or a ban, and an hour for a quota that opens; or it has refused every call for a quarter of an hour. Pure.
 */
export function describeLongPause(rate: RateStatus | null): string | null {
  if (!rate?.stallReason) return null
  const { state, stallReason, nextWindowInMs, stalledForMs } = rate
  const isRefused = state === 'banned' || (state === 'cooldown' && rate.throttled > 0)
  const longest = isRefused ? MAX_AWAITED_DELAY_MS : MAX_QUOTA_WAIT_MS
  const isLong = (nextWindowInMs ?? 0) > longest || (isRefused && (stalledForMs ?? 0) > MAX_REFUSED_MS)
  return isLong ? stallReason : null
}

/** A finished job waits for what its deliveries left out; the others for their first delivery. */
function describeAwaitedJobs({ all, finished }: AwaitedJobs): string {
  if (all > finished)
    return all - finished === 1
      ? 'a job waits for its delivery'
      : `${all - finished} jobs wait for their delivery`
  return finished === 1
    ? 'a finished job waits for its missing results'
    : `${finished} finished jobs wait for their missing results`
}
