import type { DeletedRowsStatus, RateLimitReport, RateReport, StatusReport } from '../domain/report/status.ts'
import * as deliveries from '../store/deliveries.ts'
import * as metrics from '../store/metrics.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'
import { listNextRuns } from '../config/cron.ts'
import { describeHeldErase, isEraseHeld } from '../domain/deleted-row.ts'
import type { StoredRateStatus } from '../domain/rate-status.ts'
import { readSpend, type SpendSettings } from './spend.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { countDeletedRows } from '../store/deleted-rows.ts'
import { listFillRates, listPaused, listSlowedWrites, type SourceFillRate } from '../store/source-state.ts'
import type { Database } from '../store/open.ts'
import { listRetiredSources } from '../store/retire-source.ts'

/** Rows that their tables no longer have. @param known how many rows of each source are known beside them */
async function readDeletedRows(
  db: Database,
  known: ReadonlyMap<string, number>,
): Promise<DeletedRowsStatus[]> {
  return (await countDeletedRows(db, [...known.keys()])).map((deleted) => {
    const counts = { known: known.get(deleted.source) ?? 0, deleted: deleted.rows, hidden: deleted.hidden }
    const isHeld = !deleted.is_kept && isEraseHeld(counts)
    return { ...deleted, held: isHeld ? describeHeldErase(deleted.source, counts) : null }
  })
}

/** Reads all known limits, the most recent first. */
export async function readRateLimits(db: Database): Promise<RateLimitReport[]> {
  const statuses = await rateLimits.readRateStatuses(db)
  return (await rateLimits.listRateLimits(db)).map(({ scope, service, limit, windowMs, observedAt }) => {
    const status = statuses.get(scope)
    return {
      service,
      limit,
      window_ms: windowMs,
      observed_at: new Date(observedAt),
      status: status === undefined ? null : toRateReport(status),
    }
  })
}

const toRateReport = ({ overstated, learnt, ...status }: StoredRateStatus): RateReport => ({
  state: status.state,
  limit: status.limit,
  window_ms: status.windowMs,
  used: status.used,
  permitted: status.permitted,
  utilisation: status.utilisation,
  window_used: status.windowUsed,
  next_window_at: toTime(status.nextWindowAt),
  stall_reason: status.stallReason,
  throttled: status.throttled,
  shared_key: status.sharedKey,
  overstated: overstated
    ? {
        endpoint: overstated.endpoint,
        limit: overstated.calls,
        window_ms: overstated.windowMs,
        granted: overstated.granted,
      }
    : null,
  beside: learnt?.isBeside ? { limit: learnt.calls, window_ms: learnt.windowMs } : null,
  reported_at: status.reportedAt,
  live: status.isLive,
})

/** Null if there is none, or if it is beyond the calendar. */
const toTime = (at: number | null): Date | null =>
  at === null || Number.isNaN(new Date(at).getTime()) ? null : new Date(at)

/**
 * The status from Fillrate's own tables alone: cheap enough to poll every few seconds. Without the conditions: an outage among
 * them is stored nowhere.
 */
export async function createStatusReport(
  db: Database,
  settings: SpendSettings,
): Promise<Omit<StatusReport, 'conditions'>> {
  const { sources, schedule } = settings
  const names = Object.keys(sources)
  const states = await Promise.all(names.map((name) => rows.countRowStates(db, { sources: [name] })))
  const counts = states.map((counted) => ({
    total: Object.values(counted).reduce((sum, n) => sum + n, 0),
    ...counted,
  }))
  const known = new Map(names.map((name, n) => [name, counts[n]?.total ?? 0]))
  const retired = await listRetiredSources(db, names)
  const paused = await listPaused(db)
  const filled = await listFillRates(db, names)
  return {
    rows: Object.fromEntries(counts.map((count, n) => [names[n], count])),
    jobs: Object.fromEntries((await metrics.listJobGroups(db)).map((group) => [group.state, group.jobs])),
    deliveries: await deliveries.countDeliveryStates(db),
    quarantined_results: await deliveries.countQuarantinedResults(db),
    running_runs: (await runs.listRunning(db)).length,
    last_run: (await runs.listRuns(db, 1))[0] ?? null,
    slowed_writes: await listSlowedWrites(db, names),
    paused: paused.filter((pause) => !retired.some(({ source }) => source === pause.source)),
    deleted: await readDeletedRows(db, known),
    limits: await readRateLimits(db),
    fill_rate: Object.fromEntries(
      Object.values(sources).map((source) => [
        source.name,
        toFillRate(
          source,
          filled.find((rate) => rate.source === source.name),
        ),
      ]),
    ),
    spend: await readSpend(db, settings),
    schedule: listNextRuns(schedule, Date.now()),
    retired,
  }
}

/** The last count, by a run: it reads the whole table of the source. Columns that were not counted then are missing. */
function toFillRate(
  { outputs }: Pick<SourceMapping, 'outputs'>,
  last: SourceFillRate | undefined,
): StatusReport['fill_rate'][string] {
  if (last === undefined) return 'unknown: it is counted by runs, and there was none yet'
  const { filled } = last
  return {
    eligible: last.eligible,
    columns: outputs.flatMap(({ column }) =>
      filled[column] === undefined ? [] : [{ column, filled: filled[column] }],
    ),
    measured_at: last.at,
  }
}
