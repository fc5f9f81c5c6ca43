import { sql } from 'kysely'
import type { TroubleFacts } from '../domain/trouble-facts.ts'
import type { CircuitCause, RateStatus } from '../domain/rate-status.ts'
import type { ScheduledRunState } from '../domain/schedule.ts'
import type { TroubleCode } from '../domain/trouble.ts'
import { type DayUsage, readDayBudget } from './budgets.ts'
import { queuedChangesSql } from './changed-rows.ts'
import { overdueJobsSql } from './jobs.ts'
import type { Database } from './open.ts'
import { ALIVE_FOR } from './processes.ts'
import { listRejectedWrites } from './rejected-writes.ts'
import { intervalSql, readOne } from './sql.ts'

/** The latest runs that are searched for failed ones, and for how long one matters. */
const MAX_RUNS = 200
const RUNS_MS = 7 * 24 * 3_600_000

/** A leader that was killed is replaced this soon after its lease has expired, and what it last reported holds until its successor reports. */
const SUCCEEDED_WITHIN = sql`interval '3 seconds'`
const REPORT_HOLDS_FOR = sql`interval '10 seconds'`

/** SQL: a time as milliseconds since the epoch, for JSON. */
const msSql = (time: string) => sql.raw(`(extract(epoch from ${time}) * 1000)::float8`)

interface FactsRow {
  now: Date
  read_only: boolean
  waiting: number
  has_daemon: boolean
  speaker: string | null
  refused: boolean
  circuits: { scope: string; opened: number; probe: number; reason: string | null; cause: CircuitCause }[]
  leaders: { scope: string; status: RateStatus | null }[]
  overdue_jobs: number
  overdue_since: Date | null
  schedules: {
    schedule: string
    at: number
    state: ScheduledRunState
    held: boolean
    reason: string | null
  }[]
  changes: { source: string; keys: number; edits: number; edit: number | null; import: number | null }[]
  runs: {
    run: number
    sources: string[]
    scope: string | null
    failedFor: TroubleCode | null
    reason: string | null
    finished: number
  }[]
}

/**
 * Reads everything that troubles are decided from, in a few small statements on Fillrate's own tables: cheap enough for
 * every two seconds.
 */
export async function readTroubleFacts(
  db: Database,
): Promise<Omit<TroubleFacts, 'openTroubles' | 'endedCauses'>> {
  const facts = sql<FactsRow>`
    select clock_timestamp() as now, current_setting('transaction_read_only') = 'on' as read_only,
      (with configured as (
         select jsonb_object_keys(config -> 'sources') as source from fillrate.processes where seen_at > now() - ${ALIVE_FOR})
       select coalesce(sum(rows), 0)::bigint from fillrate.row_counts
        where state = 'waiting' and (source in (select source from configured) or not exists (select from configured))) as waiting,
      exists (select from fillrate.processes
               where role = 'start' and seen_at > now() - ${ALIVE_FOR}) as has_daemon,
      (select owner from fillrate.processes where seen_at > now() - ${ALIVE_FOR}
        order by role = 'start' desc, role = 'serve' desc, started_at, owner limit 1) as speaker,
      exists (select from fillrate.processes where refused_at > now() - interval '10 seconds') as refused,
      (select coalesce(jsonb_agg(jsonb_build_object('scope', scope, 'opened', ${msSql('opened_at')},
                'probe', ${msSql('probe_at')}, 'reason', reason, 'cause', cause)), '[]')
         from fillrate.circuit_breakers) as circuits,
      (select coalesce(jsonb_agg(jsonb_build_object('scope', l.scope, 'status', r.status)), '[]')
         from fillrate.leases l
         left join fillrate.rate_limits r on r.scope = l.scope and r.reported_at >= l.acquired_at - ${REPORT_HOLDS_FOR}
        where l.leased_until > now() - ${SUCCEEDED_WITHIN}) as leaders,
      overdue.jobs as overdue_jobs, overdue.since as overdue_since,
      (select coalesce(jsonb_agg(jsonb_build_object('schedule', schedule, 'at', ${msSql('at')}, 'state', state,
                'held', coalesce(leased_until > now(), false), 'reason', reason)), '[]')
         from (select distinct on (schedule) * from fillrate.scheduled_runs
                where at between now() - ${intervalSql(RUNS_MS)} and now() order by schedule, at desc) latest) as schedules,
      (select coalesce(jsonb_agg(jsonb_build_object('source', source, 'keys', keys, 'edits', edits,
                'edit', ${msSql('edit')}, 'import', ${msSql('import')})), '[]')
         from (select source, sum(rows) as keys, coalesce(sum(rows) filter (where not is_import), 0) as edits,
                      min(oldest_at) filter (where not is_import) as edit,
                      min(oldest_at) filter (where is_import) as import
                 from ${queuedChangesSql} queued
                where not exists (select from fillrate.paused_sources p where p.source = queued.source)
                group by source) by_source) as changes,
      (select coalesce(jsonb_agg(jsonb_build_object('run', id, 'sources', sources, 'scope', failed_scope,
                'failedFor', failed_for, 'reason', reason, 'finished', ${msSql('finished_at')})), '[]')
         from (select distinct on (sources) * from fillrate.runs f
                where id > (select coalesce(max(id), 0) - ${MAX_RUNS} from fillrate.runs)
                  and started_at > now() - ${intervalSql(RUNS_MS)} and state = 'failed' and trigger <> 'manual'
                order by sources, id desc) f
        where exists (select from unnest(f.sources) source where not exists (
                select from fillrate.runs later
                 where later.id > (select max(id) - ${MAX_RUNS} from fillrate.runs) and source = any(later.sources)
                   and later.options -> 'undoes' is null and later.options -> 'dry' is distinct from 'true'
                   and later.state <> 'failed' and greatest(
                         case when later.state = 'completed' then later.finished_at end,
                         (select written_at from fillrate.changes c
                           where c.run_id = later.id and c.source = source order by id desc limit 1)) > f.finished_at))) as runs
      from (select count(*) as jobs, min(deadline_at) as since from ${overdueJobsSql} late) overdue`
  const row = await readOne(db, facts)
  const rejectedWrites = await listRejectedWrites(db)
  return { ...toFacts(row), rejectedWrites, spentBudgets: listSpentBudgets(await readDayBudget(db)) }
}

function toFacts(
  row: FactsRow,
): Omit<TroubleFacts, 'openTroubles' | 'endedCauses' | 'rejectedWrites' | 'spentBudgets'> {
  const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms))
  return {
    now: row.now,
    isReadOnly: row.read_only,
    waitingRows: row.waiting,
    hasDaemon: row.has_daemon,
    speaker: row.speaker,
    isRefused: row.refused,
    circuits: row.circuits.map(({ scope, opened, probe, reason, cause }) => ({
      scope,
      openedAt: new Date(opened),
      probeAt: new Date(probe),
      reason,
      cause,
    })),
    leaders: row.leaders,
    overdueJobs: { jobs: row.overdue_jobs, since: row.overdue_since },
    scheduledRuns: row.schedules.map(({ held, at, ...one }) => ({ ...one, at: new Date(at), isHeld: held })),
    changes: row.changes.map((one) => ({
      source: one.source,
      count: one.keys,
      edits: one.edits,
      oldestEditAt: toDate(one.edit),
      oldestImportAt: toDate(one.import),
    })),
    failedRuns: row.runs.map(({ finished, ...one }) => ({ ...one, finishedAt: new Date(finished) })),
  }
}

/** The budget of a day if it is spent, or else the parts of it that are. */
function listSpentBudgets({ bound, spent, bySource }: DayUsage): TroubleFacts['spentBudgets'] {
  if (bound === null) return []
  const { limit, sources } = bound
  const common = bound.isInCredits && { isInCredits: true }
  if (limit !== null && spent >= limit) return [{ ...common, source: null, limit }]
  return Object.entries(sources).flatMap(([source, sourceLimit]) =>
    (bySource[source] ?? 0) >= sourceLimit ? [{ ...common, source, limit: sourceLimit }] : [],
  )
}
