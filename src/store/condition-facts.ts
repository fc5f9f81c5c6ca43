import { type RawBuilder, sql } from 'kysely'
import { QUEUED_REASON, ScheduledRun } from '../domain/schedule.ts'
import { type DayUsage, readDayBudget } from './budgets.ts'
import { queuedChangesSql } from './changed-rows.ts'
import { overdueJobsSql } from './jobs.ts'
import { ALIVE_FOR } from './processes.ts'
import { jsonBatch } from './sql.ts'
import type { Connection } from './transaction.ts'

/** What the reader of conditions knows and Postgres does not. */
export interface Observer {
  /** The schedules of the configuration, and when each was due last, in milliseconds since the epoch. Null: unknown. */
  readonly schedules: ReadonlyMap<string, number | null> | null
}

/** What comes and goes within seconds is one condition; its end is seen within ten. */
const HOLD = sql`interval '6 seconds'`
/** The latest runs that are searched for failed ones, and for how long one matters. */
const MAX_RUNS = 200
const WEEK = sql`interval '7 days'`
/** A leader that was killed is replaced this soon after its lease has expired; what it reported last holds until its successor reports. */
const SUCCEEDED_WITHIN = sql`interval '3 seconds'`
const REPORT_HOLDS_FOR = sql`interval '10 seconds'`
/** A scheduled run starts within a second; a queued one waits for another run of its sources. */
const LATE = sql`interval '5 minutes'`
const LATE_IN_QUEUE = sql`interval '30 minutes'`
/** A changed row is picked within a second; an import is picked in parts, after everything else. */
const BEHIND = sql`interval '2 minutes'`
const IMPORT_BEHIND = sql`interval '60 minutes'`
/** Fewer rejected rows may be odd ones; this many are worth a look, whatever their share, which is notable from one in 20. */
const MIN_REJECTED = 5
const MANY_REJECTED = 1_000
const NOTABLE_ONE_IN = 20

/** SQL: a duration in milliseconds. */
const msSql = (interval: RawBuilder<unknown>) => sql`(extract(epoch from ${interval}) * 1000)::float8`

/**
 * SQL: the CTEs `alive`, `daemon`, `configured`, `service`: who there is, which of several services each source of a living process uses, and
 * how many rows of its sources wait for each.
 */
const actorsSql = sql`
  alive as (
    select owner, role, host, pid, refused, refused_at, config
      from fillrate.processes
     where seen_at > now() - ${ALIVE_FOR}
  ), daemon as (
    select exists (select from alive where role = 'start') as is_alive
  ), configured as (
    select distinct c.key as source, u.service
      from alive
     cross join lateral jsonb_each(config -> 'sources') c
      left join lateral jsonb_array_elements_text(c.value #> '{turn,services}') u (service) on true
  ), service as (
    select s.id, coalesce(s.name, s.host) as name,
           (select coalesce(sum(rows), 0)::bigint
              from fillrate.row_counts r
             where r.state = 'waiting'
               and (not exists (select from configured)
                    or exists (select from configured c where c.source = r.source and coalesce(c.service, s.name) = s.name))
           ) as waiting
      from fillrate.services s
  )`

/**
 * SQL: the CTE `circuit`: services that answer nothing. An open circuit that no process probes any more says what was, unless a run
 * has failed for it: then it is not over before the next one. Neither credits nor keys come back by themselves.
 */
const circuitSql = sql`
  circuit as (
    select case when c.cause in ('key_refused', 'out_of_credits') then c.cause else 'service_failing' end as kind,
           s.name as service, null as source, c.opened_at as since,
           jsonb_build_object('cause', c.cause, 'reason', c.reason, 'waiting', s.waiting, 'until', c.probe_at) as details
      from fillrate.circuit_breakers c
      join service s on s.id = c.service_id
     where case
             when c.cause in ('key_refused', 'out_of_credits') then c.probe_at > now() - ${WEEK}
             else c.probe_at > now() - interval '2 minutes'
               or exists (select from fillrate.leases l where l.scope = c.scope and l.leased_until > now() - ${SUCCEEDED_WITHIN})
               or exists (
                    select from fillrate.runs f
                     where f.id > (select coalesce(max(id), 0) - ${MAX_RUNS} from fillrate.runs)
                       and f.state = 'failed' and f.trigger <> 'manual' and f.failed_for = 'service_failing'
                       and f.failed_scope = c.scope and f.finished_at >= c.opened_at)
           end
  )`

/**
 * SQL: the CTE `cause`: what explains a run that failed and what is late, while it holds and from what it has delayed: of a service,
 * of a source, or Postgres itself.
 */
const causesSql = sql`
  cause as (
    select kind, service, source, since as began, 'infinity'::timestamptz as ended from circuit
    union all
    select kind, service, source, began_at, coalesce(ended_at, 'infinity')
      from fillrate.conditions
     where began_at > now() - ${WEEK} and kind in ('database_away', 'service_failing', 'key_refused', 'out_of_credits', 'source_broken')
        or began_at > now() - ${WEEK} and kind = 'throttled' and details ->> 'cause' in ('banned', 'shared_key')
  )`

/** SQL: when what explains a symptom was over last; `infinity`: it holds. */
const explainedUntilSql = (about: RawBuilder<boolean>) =>
  sql`coalesce((select max(ended) from cause where kind = 'database_away' or ${about}), '-infinity')`

/** SQL: whether a cause is about the source `q.source`: itself, or a service that it uses. */
const IS_ABOUT_SOURCE = sql<boolean>`
  source = q.source
  or service is not null and coalesce((
       select bool_or(coalesce(c.service, cause.service) = cause.service) from configured c where c.source = q.source), true)`

/** SQL: the CTE `throttled`, as leaders report it. Calls that wait for less than ten seconds, or one window, are as usual. */
const throttledSql = sql`
  throttled as (
    select 'throttled' as kind, t.service, null as source,
           case when t.cause = 'limit' then now() - t.stalled else now() end as since,
           jsonb_build_object('cause', t.cause, 'waiting', t.waiting) || case when t.is_stalled then
             jsonb_build_object('ms', ${msSql(sql`t.stalled`)}, 'reason', case t.cause when 'limit' then t.status ->> 'stallReason' end,
               'until', case when (t.status ->> 'nextWindowAt')::float8 between 0 and 1e13
                             then to_timestamp((t.status ->> 'nextWindowAt')::float8 / 1000) end)
             else '{}' end as details
      from (
        select w.*, s.name as service, s.waiting,
               case when w.status ->> 'state' = 'banned' then 'banned'
                    when (w.status ->> 'sharedKey')::boolean then 'shared_key'
                    when w.is_stalled and ${explainedUntilSql(sql`service = s.name`)} < now() - w.usual then 'limit' end as cause
          from service s
          join (
            select r.service_id, r.status, m.stalled, m.usual,
                   r.status ->> 'stallReason' is not null and m.stalled >= m.usual as is_stalled
              from fillrate.leases l
              join fillrate.rate_limits r on r.scope = l.scope and r.reported_at >= l.acquired_at - ${REPORT_HOLDS_FOR}
             cross join lateral (
               select coalesce((r.status ->> 'stalledForMs')::float8, 0) * interval '1 ms' as stalled,
                      least(600000, greatest(10000, coalesce((r.status ->> 'windowMs')::float8, 0) * 1.25)) * interval '1 ms' as usual
             ) m
             where l.leased_until > now() - ${SUCCEEDED_WITHIN}
          ) w on w.service_id = s.id
      ) t
     where t.cause is not null
  )`

/**
 * SQL: the CTE `run_failed`: the latest failed run of each set of sources that no user has started, unless each of its sources has
 * ended another run since, or was written. One that failed for a condition is part of that, which is known within seconds.
 */
const failedRunsSql = sql`
  run_failed as (
    select 'run_failed' as kind, f.service, array_to_string(f.sources, ', ') as source, f.finished_at as since,
           jsonb_build_object('run', f.id, 'sources', f.sources, 'reason', f.reason) as details
      from (
        select distinct on (r.sources) r.*,
               (select s.name from service s where r.scopes ->> s.id::text = r.failed_scope and r.failed_for <> 'database_away' limit 1) as service
          from fillrate.runs r
         where r.id > (select coalesce(max(id), 0) - ${MAX_RUNS} from fillrate.runs)
           and r.started_at > now() - ${WEEK} and r.state = 'failed' and r.trigger <> 'manual'
         order by r.sources, r.id desc
      ) f
     where (f.failed_for is null
            or f.finished_at < now() - interval '10 seconds'
               and not exists (
                     select from cause
                      where (kind = 'database_away' or service = f.service or kind = 'source_broken' and source = any(f.sources))
                        and began <= f.finished_at + interval '10 seconds' and ended >= f.finished_at - interval '10 seconds'))
       and exists (
             select from unnest(f.sources) source
              where not exists (
                      select from fillrate.runs later
                       where later.id > (select max(id) - ${MAX_RUNS} from fillrate.runs) and source = any(later.sources)
                         and later.options -> 'undoes' is null and later.options -> 'dry' is distinct from 'true'
                         and later.state <> 'failed' and f.finished_at < greatest(
                               case when later.state = 'completed' then later.finished_at end,
                               (select written_at from fillrate.changes c
                                 where c.run_id = later.id and c.source = source order by id desc limit 1))))
  )`

/**
 * SQL: the CTE `late`: a scheduled run that has not started, and what live sync has not picked, counted anew from the end of what
 * explains it, as that takes its time to be made up for. Without a daemon all wait for the same: the gravest and oldest speaks for all.
 */
const lateSql = ({ schedules }: Observer, spent: RawBuilder<unknown>) => sql`
  due as (
    select * from jsonb_to_recordset(${jsonBatch([...(schedules ?? [])].map(([schedule, at]) => ({ schedule, at })))})
      as d (schedule text, at float8)
  ), late_schedule as (
    select 'schedule' as cause, l.schedule as source, w.since, l.allowed, ${explainedUntilSql(sql`false`)} as explained,
           coalesce(case when not daemon.is_alive then 'no daemon is running' end, w.reason) as reason, null::bigint as waiting
      from (
        select distinct on (s.schedule) s.*, coalesce(s.leased_until > now(), false) as is_held,
               case when s.state = ${ScheduledRun.waiting} and s.reason = ${QUEUED_REASON} and daemon.is_alive
                    then ${LATE_IN_QUEUE} else ${LATE} end as allowed
          from fillrate.scheduled_runs s
         cross join daemon
         where s.at between now() - ${WEEK} and now()
           and (${schedules === null} or s.schedule in (select schedule from due))
         order by s.schedule, s.at desc
      ) l
     cross join daemon
      left join due on due.schedule = l.schedule
     cross join lateral (
       select case when l.state = ${ScheduledRun.waiting} or l.state = ${ScheduledRun.running} and not l.is_held then l.at
                   when l.state <> ${ScheduledRun.running} and to_timestamp(due.at / 1000) > l.at then to_timestamp(due.at / 1000)
              end as since,
              case l.state when ${ScheduledRun.waiting} then l.reason
                           when ${ScheduledRun.running} then 'its process died, and no other has taken over'
                           else 'no process has started it' end as reason
     ) w
  ), waiting_changes as (
    select q.source, q.is_import, q.rows, q.oldest_at
      from ${queuedChangesSql} q
     where not exists (select from fillrate.paused_sources p where p.source = q.source)
  ), late_changes as (
    select 'live_sync' as cause, q.source, min(q.oldest_at) as since, interval '0' as allowed, '-infinity'::timestamptz as explained,
           case when not (select is_alive from daemon) then 'no daemon is running' end as reason,
           (select sum(rows)::bigint from waiting_changes a where a.source = q.source) as waiting
      from waiting_changes q
     where not exists (select from ${spent} where spent.source is null or spent.source = q.source)
       and greatest(q.oldest_at, ${explainedUntilSql(IS_ABOUT_SOURCE)})
             < now() - case when q.is_import then ${IMPORT_BEHIND} else ${BEHIND} end
     group by q.source
  ), late as (
    select 'late' as kind, null as service, l.source, l.since,
           jsonb_build_object('cause', l.cause, 'ms', ${msSql(sql`now() - l.since`)}, 'reason', l.reason, 'waiting', l.waiting) as details
      from (
        select a.*, row_number() over (order by a.cause desc, a.since) as n
          from (select * from late_schedule union all select * from late_changes) a
         where a.since is not null and greatest(a.since, a.explained) < now() - a.allowed
      ) l
     cross join daemon
     where daemon.is_alive or l.n = 1
  )`

/**
 * SQL: the CTE `writes_rejected`: sources of which a notable share of rows is rejected, of one run, or of the latest together, because
 * runs of live sync have few rows each. Reads a bounded number of rows.
 */
const rejectedSql = sql`
  writes_rejected as (
    select 'writes_rejected' as kind, null as service, r.source, latest.since,
           jsonb_build_object('waiting', r.rows, 'reason', latest.reason) as details
      from (
        select source, sum(rows)::bigint as rows
          from fillrate.row_counts
         where state = 'write_rejected'
         group by source
        having sum(rows) >= ${MIN_REJECTED}
      ) r
     cross join lateral (
       with rejected as materialized (
         select run_id, reason, settled_at
           from fillrate.rows
          where source = r.source and failure = 'write_rejected'
            and run_id >= (select min(id) from fillrate.runs where started_at > now() - ${WEEK})
          order by run_id desc
          limit ${MANY_REJECTED}
       ), by_run as (
         select run_id, count(*) as rejected, min(settled_at) as since from rejected group by run_id
       ), counted as (
         select by_run.*,
                (select count(*)
                   from (select from fillrate.changes c
                          where c.run_id = by_run.run_id and c.source = r.source
                          limit case when rejected < ${MANY_REJECTED} then rejected * ${NOTABLE_ONE_IN} else 0 end) c) as written
           from by_run
       ), summed as (
         select *, sum(rejected) over latest as all_rejected, sum(written) over latest as all_written
           from counted window latest as (order by run_id desc)
       )
       select min(since) as since, (select mode() within group (order by reason) from rejected) as reason
         from summed
        where rejected >= ${MANY_REJECTED} or all_rejected >= ${MANY_REJECTED}
           or rejected >= ${MIN_REJECTED} and rejected * ${NOTABLE_ONE_IN} >= rejected + written
           or all_rejected >= ${MIN_REJECTED} and all_rejected * ${NOTABLE_ONE_IN} >= all_rejected + all_written
     ) latest
     where latest.since is not null
  )`

/** SQL: the CTEs `jobs_overdue`, `budget_used` and `database_away`. A budget below the backlog is a choice: only edits may not wait for it. */
const restSql = (spent: RawBuilder<unknown>) => sql`
  jobs_overdue as (
    select 'jobs_overdue' as kind, s.name as service, null as source, min(j.deadline_at) as since,
           jsonb_build_object('waiting', count(*)) as details
      from ${overdueJobsSql} j
      left join service s on s.id = j.service_id
     group by s.name
  ), budget_used as (
    select 'budget_used' as kind, null as service, s.source, now() as since,
           jsonb_build_object('limit', s."limit", 'unit', s.unit, 'waiting', w.edits,
             'until', date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' + interval '1 day') as details
      from ${spent}
     cross join lateral (
       select sum(rows)::bigint as edits from waiting_changes q where not is_import and (s.source is null or q.source = s.source)
     ) w
     where w.edits > 0
  ), database_away as (
    select 'database_away' as kind, null as service, null as source, refused_at as since,
           jsonb_build_object('sqlstate', refused, 'process', host || ':' || pid) as details
      from alive
     where refused_at > now() - interval '10 seconds'
  )`

/**
 * SQL: what holds now, with the `id` of its record (null: there is none yet): what Postgres shows, what a part of the program has
 * reported and not ended, and what was seen a moment ago. The one definition of every condition.
 */
export async function shownSql(db: Connection, observer: Observer): Promise<RawBuilder<unknown>> {
  const budgets = jsonBatch(listSpentBudgets(await readDayBudget(db)))
  const spent = (name: string) =>
    sql`jsonb_to_recordset(${budgets}) as ${sql.ref(name)} (source text, "limit" float8, unit text)`
  return sql`
    with ${actorsSql}, ${circuitSql}, ${causesSql}, ${throttledSql}, ${failedRunsSql}, ${lateSql(observer, spent('spent'))},
      ${rejectedSql}, ${restSql(spent('s'))}, observed as (
      select distinct on (kind, service, source) kind, service, source, least(since, now()) as since, jsonb_strip_nulls(details) as details
        from (select * from circuit union all select * from throttled union all select * from run_failed union all select * from late
              union all select * from writes_rejected union all select * from jobs_overdue union all select * from budget_used
              union all select * from database_away) c
       order by kind, service, source, since
    ), shown as (
      select r.id, coalesce(r.kind, o.kind) as kind, coalesce(r.service, o.service) as service, coalesce(r.source, o.source) as source,
             coalesce(r.began_at, o.since) as since, o.kind is not null as is_observed,
             case when o.kind is null or r.is_reported then r.details else o.details end as details
        from observed o
        full join (select * from fillrate.conditions where ended_at is null) r
          on r.kind = o.kind and coalesce(r.service, '') = coalesce(o.service, '') and coalesce(r.source, '') = coalesce(o.source, '')
       where o.kind is not null or r.is_reported or r.seen_at > now() - ${HOLD}
    )`
}

/** The budget of a day if it is spent, or else the parts of it that are. */
function listSpentBudgets({ bound, spent, bySource }: DayUsage) {
  if (bound === null) return []
  const unit = bound.isInCredits ? 'credits' : null
  if (bound.limit !== null && spent >= bound.limit) return [{ source: null, limit: bound.limit, unit }]
  return Object.entries(bound.sources)
    .filter(([source, limit]) => (bySource[source] ?? 0) >= limit)
    .map(([source, limit]) => ({ source, limit, unit }))
}
